"""The JVM has the drivers that its connectors need, and says what to do about others."""

from __future__ import annotations

import pytest
from py4j.java_gateway import get_field
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from headrace.connectors.jdbc.contract.dialect import JvmDriver
from headrace.connectors.jdbc.database.installed_dialects import dialect_for, dialects
from headrace.connectors.jdbc.database.jvm_link import JvmAccess, JvmLink, JvmReadError

pytestmark = pytest.mark.spark


def test_the_drivers_are_there(spark: SparkSession) -> None:
    for dialect in dialects().values():
        assert spark._jvm is not None
        assert spark._jvm.java.lang.Class.forName(dialect.jdbc_class) is not None


@pytest.mark.parametrize("subprotocol", ["postgresql", "mariadb"])
def test_the_parameters_that_matter_to_drivers_are_theirs(spark: SparkSession, subprotocol: str) -> None:
    dialect, jvm = dialect_for(subprotocol), spark._jvm
    assert jvm is not None
    driver = jvm.java.lang.Class.forName(dialect.jdbc_class).newInstance()
    infos = driver.getPropertyInfo(f"jdbc:{subprotocol}://db/shop", jvm.java.util.Properties())
    ours = {"zerodatetimebehavior"}
    unknown = dialect.obeyed_by_jvm - {get_field(one, "name").lower() for one in infos} - ours
    # MySQL's names, which MariaDB's driver takes for its own.
    assert all(name.startswith(("clientcertificatekeystore", "trustcertificatekeystore")) for name in unknown)


def test_a_missing_driver_is_named_with_the_line_that_brings_it(spark: SparkSession) -> None:
    driver = JvmDriver("oracle.jdbc.OracleDriver", "jdbc:oracle:thin:@//db/shop", {})
    link = JvmLink(JvmAccess(driver, driver.url, about="jdbc:oracle: as user u"))
    with pytest.raises(JvmReadError, match=r"user u: .*ojdbc11.*spark\.driver\.extraClassPath="):
        list(link.read("SELECT 1", StructType([StructField("a", IntegerType())]), "a", 10, 1))
    link.close()
