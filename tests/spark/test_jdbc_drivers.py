"""The JVM has the drivers that its connectors need, and says what to do about others."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from headrace.connectors.jdbc.contract.dialect import JvmDriver
from headrace.connectors.jdbc.database.installed_dialects import dialects
from headrace.connectors.jdbc.database.jvm_link import JvmAccess, JvmLink, JvmReadError

pytestmark = pytest.mark.spark


def test_the_drivers_are_there(spark: SparkSession) -> None:
    for dialect in dialects().values():
        assert spark._jvm is not None
        assert spark._jvm.java.lang.Class.forName(dialect.jdbc_class) is not None


def test_a_missing_driver_is_named_with_the_line_that_brings_it(spark: SparkSession) -> None:
    driver = JvmDriver("oracle.jdbc.OracleDriver", "jdbc:oracle:thin:@//db/shop", {})
    link = JvmLink(JvmAccess(driver, driver.url, about="jdbc:oracle: as user u"))
    with pytest.raises(JvmReadError, match=r"user u: .*ojdbc11.*spark\.driver\.extraClassPath="):
        list(link.read("SELECT 1", StructType([StructField("a", IntegerType())]), "a", 10, 1))
    link.close()
