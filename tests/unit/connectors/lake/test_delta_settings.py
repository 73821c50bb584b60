"""The Delta sink's settings: what contradicts, and what a worker does not let it open."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.config.settings import ConfigError
from headrace.config.worker.allowed_hosts import host_problems
from headrace.connectors.lake.delta.access import Access
from headrace.connectors.lake.delta.connector import DeltaSinkConnector
from headrace.connectors.lake.delta.settings import delta_options

UPSERT = {"write.mode": "UPSERT", "id.columns": "a,b"}


def problems(config: dict[str, str], **worker: object) -> dict[str, str]:
    connector = DeltaSinkConnector()
    connector.worker = worker
    found = connector.validate({"name": "d", "topics": "t", **config})
    return {problem.key: problem.message for problem in found}


def test_a_config_that_is_right() -> None:
    assert problems({"table.path": "s3://b/${topic}", **UPSERT}) == {}
    options = delta_options(
        {
            "table.path": " /lake/${topic} ",
            "delta.storage.A": "1",
            "table.properties.delta.appendOnly": "true",
            **UPSERT,
        }
    )
    assert options.table("t") == "/lake/t"
    assert options.upserts
    assert options.ids == ("a", "b")
    assert options.storage == {"A": "1"}
    assert options.properties == {"delta.appendOnly": "true"}
    assert "'1'" not in repr(options)


@pytest.mark.parametrize(
    ("config", "key", "message"),
    [
        ({"table.path": " "}, "table.path", "is empty"),
        ({"table.path": "/t/${table}"}, "table.path", "only variable is"),
        ({"table.path": "/t", "write.mode": "upsert"}, "id.columns", "need a row's key"),
        ({"table.path": "/t", "id.columns": "a"}, "id.columns", "a row has no key"),
        ({"table.path": "/t", "errors.retry.topic.name": "r"}, "errors.retry.topic.name", "comes after later ones"),
        (
            {"table.path": "s3://b/t", "delta.storage.google_service_account": "/etc/key"},
            "delta.storage.google_service_account",
            "of the worker's machine",
        ),
        (
            {"table.path": "s3://b/t", "delta.storage.AWS_WEB_IDENTITY_TOKEN_FILE": "/etc/token"},
            "delta.storage.AWS_WEB_IDENTITY_TOKEN_FILE",
            "of the worker's machine",
        ),
    ],
)
def test_what_contradicts(config: dict[str, str], key: str, message: str) -> None:
    assert message in problems(config)[key]
    with pytest.raises(ConfigError, match=key):
        delta_options({"name": "d", **config})


def test_several_tasks_that_upsert_into_one_table_are_advised_against() -> None:
    many, one = {"tasks.max": "4"}, DeltaSinkConnector()
    assert [problem.key for problem in one.advise({"table.path": "/t", **UPSERT, **many})] == ["tasks.max"]
    for config in (
        {"table.path": "/t", **UPSERT},
        {"table.path": "/t", **many},
        {"table.path": "/${topic}", **UPSERT, **many},
    ):
        assert list(one.advise(config)) == []


def test_paths_outside_of_the_allowed_ones_are_refused(tmp_path: Path) -> None:
    allowed = [str(tmp_path / "lake")]
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "out").symlink_to("/etc")
    for path in ("/etc/t", "file:///etc/t", f"{tmp_path}/lake/../t", f"{tmp_path}/lake/out/t"):
        told = problems({"table.path": path}, **{"file.allowed.paths": allowed})
        assert "outside of file.allowed.paths" in told["file"], path
    assert problems({"table.path": f"{tmp_path}/lake/t"}, **{"file.allowed.paths": allowed}) == {}


def test_hosts_outside_of_the_allowed_ones_are_refused() -> None:
    worker = {"connector.allowed.hosts": ["store.example.com"]}
    assert "s3.eu-west-1.amazonaws.com" in problems(
        {"table.path": "s3://b/t", "delta.storage.AWS_REGION": "eu-west-1"}, **worker
    ).get("table.path", "")
    elsewhere = {"delta.storage.AWS_ENDPOINT_URL": "http://other.example.com:9000"}
    assert [one.key for one in host_problems(elsewhere, worker)] == ["delta.storage.AWS_ENDPOINT_URL"]
    assert [one.key for one in host_problems({"table.path": "hdfs://other.example.com:8020/t"}, worker)] == [
        "table.path"
    ]
    allowed = {"table.path": "s3://b/t", "delta.storage.aws_endpoint_url": "http://store.example.com"}
    assert problems(allowed, **worker) == {}


def test_a_topic_that_leads_elsewhere_is_checked_when_its_table_is_opened(tmp_path: Path) -> None:
    options = delta_options({"table.path": f"{tmp_path}/${{topic}}"})
    access = Access.of(options, {"file.allowed.paths": [str(tmp_path)]})
    access.check(options.table("t"))
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(ConfigError, match="outside"):
        access.check(options.table("link"))


@pytest.mark.parametrize(
    "option",
    [
        *("AWS_SECRET_ACCESS_KEY", "aws_session_token", "secret_access_key", "token"),
        *("AZURE_STORAGE_ACCOUNT_KEY", "azure_storage_access_key", "access_key", "account_key", "master_key"),
        *("azure_storage_sas_key", "sas_token", "sas_key", "azure_client_secret", "bearer_token"),
        *("google_service_account_key", "service_account_key"),
    ],
)
def test_secrets_are_masked(option: str) -> None:
    key = f"delta.storage.{option}"
    assert DeltaSinkConnector.settings.mask({key: "x"}) == {key: "[hidden]"}


@pytest.mark.parametrize("option", ["AWS_ACCESS_KEY_ID", "access_key_id", "AWS_REGION", "azure_storage_account_name"])
def test_what_is_no_secret_is_shown(option: str) -> None:
    key = f"delta.storage.{option}"
    assert DeltaSinkConnector.settings.mask({key: "x"}) == {key: "x"}


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("lake/t", f"{Path.cwd()}/lake/t"),
        ("//srv/./a b/../t", "/srv/t"),
        ("FILE:///srv/a%20b/t", "/srv/a b/t"),
        ("file:/srv/t", "/srv/t"),
        ("S3://b/${topic}", "S3://b/${topic}"),
        ("abfss://c@account.dfs.core.windows.net/t", "abfss://c@account.dfs.core.windows.net/t"),
    ],
)
def test_the_library_gets_the_place_that_was_judged(path: str, place: str) -> None:
    assert delta_options({"table.path": path}).path == place


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/srv/lake/x\\..\\..\\t", "does not take"),
        ("/srv/lake/%2e%2e/t", "does not take"),
        ("file:///srv/lake/%252e%252e/t", "does not take"),
        ("file:///srv/lake/x\\..\\..\\t", "no URL of a file"),
        ("file:etc/t", "no URL of a file"),
        ("file://host/t", "no URL of a file"),
        ("file:///srv/t?x", "no URL of a file"),
        ("memory://t", "no URL of a store"),
        ("hdfs://host/t", "no URL of a store"),
        ("s3://b\\@host/t", "no URL of a store"),
        ("s3:b/t", "no URL of a store"),
    ],
)
def test_places_that_the_library_reads_otherwise_are_refused(path: str, message: str) -> None:
    assert message in problems({"table.path": path})["table.path"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("proxy_url", "169.254.169.254:80"),
        ("proxy_url", "http://user:word@proxy.example.com"),
        ("AWS_ENDPOINT_URL", "http:other.example.com"),
        ("aws_endpoint_url_sts", "http://other.example.com\\@store.example.com"),
        ("azure_authority_host", "other.example.com"),
        ("aws_region", "x@other.example.com/#"),
        ("account_name", "x@other.example.com/#"),
        ("google_service_account_key", '{"gcs_base_url": "http://other.example.com", "n": ' + "9" * 5000 + "}"),
        ("aws_container_credentials_full_uri", "http://store.example.com/role"),
        ("azure_msi_endpoint", "http://store.example.com/role"),
        ("AWS_PROFILE", "operator"),
    ],
)
def test_storage_options_that_lead_past_the_allowed_hosts_are_refused(option: str, value: str) -> None:
    assert f"delta.storage.{option}" in problems({"table.path": "s3://b/t", f"delta.storage.{option}": value})


@pytest.mark.parametrize("option", ["google_service_account", "proxy_url", "google_service_account_key"])
def test_what_is_refused_may_be_a_secret(option: str) -> None:
    value = '{"private_key": "p4ssw0rd", "gcs_base_url": "http://h"}'
    with pytest.raises(ConfigError) as caught:
        delta_options({"table.path": "gs://b/t", f"delta.storage.{option}": value})
    assert "p4ssw0rd" not in str(caught.value)


def test_storage_options_that_are_right() -> None:
    right = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
        "proxy_url": "https://proxy.example.com:3128/",
        "AWS_REGION": "eu-west-1",
        "use_fabric_endpoint": "true",
        "aws_virtual_hosted_style_request": "true",
        "google_service_account_key": '{"private_key": "x"}',
    }
    assert problems({"table.path": "s3://b/t", **{f"delta.storage.{key}": value for key, value in right.items()}}) == {}


@pytest.mark.parametrize(
    ("path", "storage", "host"),
    [
        ("gs://b/t", {}, "storage.googleapis.com"),
        ("az://c/t", {"account_name": "acc"}, "acc.blob.core.windows.net"),
        ("az://c/t", {"use_emulator": "true"}, "127.0.0.1"),
    ],
)
def test_hosts_that_no_setting_names_are_judged(path: str, storage: dict[str, str], host: str) -> None:
    config = {"table.path": path, **{f"delta.storage.{key}": value for key, value in storage.items()}}
    assert host in problems(config, **{"connector.allowed.hosts": ["store.example.com"]})["table.path"]
    allowed = {"connector.allowed.hosts": [host]}
    assert [*problems(config, **allowed), *host_problems(config, allowed)] == []


def test_a_host_that_does_not_resolve_now_is_left_to_the_task() -> None:
    worker = {"connector.allowed.hosts": ["192.0.2.0/24"]}
    assert problems({"table.path": "s3://b/t", "delta.storage.AWS_REGION": "nowhere.invalid"}, **worker) == {}
