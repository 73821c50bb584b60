"""JDBC URLs as their drivers read them, and nothing secret in what is shown of them."""

from __future__ import annotations

import pickle

import pytest

from headrace.config.settings import Password
from headrace.connectors.jdbc.contract.url import DatabaseAccess, JdbcUrl, ServerAddress

SECRET = "geheim"


@pytest.mark.parametrize(
    ("text", "subprotocol", "hosts", "database", "parameters"),
    [
        ("jdbc:postgresql://db:5433/shop", "postgresql", [ServerAddress("db", 5433)], "shop", {}),
        (
            "jdbc:postgresql://a,b:6000/shop?sslmode=require",
            "postgresql",
            [ServerAddress("a"), ServerAddress("b", 6000)],
            "shop",
            None,
        ),
        ("jdbc:postgresql://[::1]:5432/a%2Fb%20c", "postgresql", [ServerAddress("::1", 5432)], "a/b c", {}),
        ("jdbc:postgresql:shop", "postgresql", [ServerAddress("localhost")], "shop", {}),
        ("jdbc:postgresql:/", "postgresql", [ServerAddress("localhost")], None, {}),
        (
            "jdbc:postgresql://db/?options=-c%20a=b+c",
            "postgresql",
            [ServerAddress("db")],
            None,
            {"options": "-c a=b c"},
        ),
        ("JDBC:MySQL://db/shop?useSSL=false&x", "mysql", [ServerAddress("db")], "shop", {"useSSL": "false", "x": ""}),
        (
            "jdbc:mariadb:sequential://a:1,b:2/shop",
            "mariadb",
            [ServerAddress("a", 1), ServerAddress("b", 2)],
            "shop",
            {},
        ),
        ("jdbc:mysql://db/shop?s%73lMode=trust", "mysql", [ServerAddress("db")], "shop", {"sslMode": "trust"}),
        (
            "jdbc:sqlserver://db:1433;databaseName=shop;encrypt=true",
            "sqlserver",
            [ServerAddress("db", 1433)],
            "shop",
            None,
        ),
        ("jdbc:sqlserver://db\\SQL_1:99;databaseName=x", "sqlserver", [ServerAddress("db\\SQL_1", 99)], "x", {}),
        ("jdbc:sqlite:/var/a b.db?busy_timeout=5", "sqlite", [], "/var/a b.db", {"busy_timeout": "5"}),
    ],
)
def test_its_parts(
    text: str, subprotocol: str, hosts: list[ServerAddress], database: str | None, parameters: dict[str, str] | None
) -> None:
    url = JdbcUrl.parse(text)
    assert (url.subprotocol, list(url.hosts), url.database) == (subprotocol, hosts, database)
    assert parameters is None or url.parameters == parameters


@pytest.mark.parametrize(
    "text",
    [
        f"jdbc:postgresql://db/shop?user=u&password={SECRET}&sslpassword={SECRET}",
        f"jdbc:mysql://u:{SECRET}@db/shop?trustStorePassword={SECRET}",
        f"jdbc:mysql://db/shop?User=u&PASSWORD={SECRET}",
        f"jdbc:mysql://db/shop?user=u&pass%77ord={SECRET}",
        f"jdbc:sqlserver://db;databaseName=shop;user=u;password={SECRET}",
    ],
)
def test_what_is_shown_has_no_secret(text: str) -> None:
    access = DatabaseAccess.of({"connection.url": text, "connection.truststore": SECRET})
    assert access.password == Password(SECRET)
    assert access.user == "u"
    for shown in (str(access), repr(access), str(access.url), repr(access.url)):
        assert SECRET not in shown
    assert pickle.loads(pickle.dumps(access)) == access


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://db/shop",
        "jdbc:",
        "jdbc:x",
        f"jdbc:mysql://u:{SECRET}@db:port/x?password={SECRET}",
        f"jdbc:oracle:thin:scott/{SECRET}@//host:1521/service",
        f"jdbc:postgresql://u:a/{SECRET}@h/db",
        f"jdbc:postgresql://u:{SECRET}?@h:x/db?user=a@b&password={SECRET}",
        f"jdbc:postgresql://u:{SECRET}/@h/db",
        f"jdbc:mysql://(host=h,port=3306,user=u,password={SECRET})/db",
        f"jdbc:mysql://address=(host=h)(user=u)(password={SECRET})/db",
        f"jdbc:postgresql://h/db;password={SECRET}",
        "jdbc:mariadb://address=(host=h)(localSocket=/x)/db",
        "jdbc:mysql://a\\b/db",
        f"jdbc:postgresql://h/db;password=p@{SECRET}",
    ],
)
def test_what_is_none_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(ValueError, match="Not a valid JDBC URL") as caught:
        JdbcUrl.parse(text)
    assert SECRET not in str(caught.value)


def test_a_semicolon_in_a_login_is_escaped() -> None:
    assert JdbcUrl.parse(f"jdbc:postgresql://u:a%3B{SECRET}@h/db").password == Password(f"a;{SECRET}")
    with pytest.raises(ValueError, match=r"in a login is written %3B") as caught:
        JdbcUrl.parse(f"jdbc:postgresql://u:a;{SECRET}@h/db")
    assert SECRET not in str(caught.value)


def test_settings_win_over_the_url_and_are_passed_on_without_prefix() -> None:
    access = DatabaseAccess.of(
        {
            "connection.url": "jdbc:postgresql://db/shop?user=a&password=b&ApplicationName=url&sslmode=require",
            "connection.user": "c",
            "connection.password": Password("d"),
            "connection.ApplicationName": "setting",
            "connection.attempts": 3,
            "connection.backoff.ms": "10",
            "topics": "t",
        }
    )
    assert (access.user, access.password) == ("c", Password("d"))
    assert access.properties == {"ApplicationName": "setting", "sslmode": "require"}


def test_debeziums_name_of_the_user() -> None:
    access = DatabaseAccess.of({"connection.url": "jdbc:postgresql://db/x", "connection.username": "u"})
    assert (access.user, access.properties) == ("u", {})
