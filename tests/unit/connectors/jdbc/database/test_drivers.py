"""A driver that is missing is named with what brings it."""

from __future__ import annotations

import pytest

from headrace.connectors.jdbc.database.drivers import missing_driver
from headrace.connectors.jdbc.database.installed_dialects import dialects


def test_our_dialects_drivers_are_among_the_pinned_jars() -> None:
    for dialect in dialects().values():
        assert "headrace.plugins.interop.jvm.jars" in missing_driver(dialect.jdbc_class)


@pytest.mark.parametrize("name", ["oracle.jdbc.OracleDriver", "org.example.Driver"])
def test_others_are_put_on_the_class_path(name: str) -> None:
    text = missing_driver(name)
    assert name in text
    assert "spark.driver.extraClassPath=" in text
    assert ("com.oracle.database.jdbc:ojdbc11" in text) is (name == "oracle.jdbc.OracleDriver")
