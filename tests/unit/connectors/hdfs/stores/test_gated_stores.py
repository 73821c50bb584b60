"""The stores within `connector.allowed.hosts`: name nodes, the data nodes that they redirect to, and S3's endpoint."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.config.worker import allowed_hosts
from headrace.config.worker.allowed_hosts import ALLOWED_HOSTS
from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.stores.by_url import store_of
from headrace.connectors.hdfs.stores.hadoop_conf import client_hosts
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.plugins.errors import RetriableError
from tests.unit.converters.registry.scripted_registry import scripted, send


def store(url: str, *patterns: str, **values: str) -> Any:
    named = {key.replace("_", "."): value for key, value in values.items()}
    return store_of(StoreSettings.of({"store.url": url, **named}, {ALLOWED_HOSTS: patterns}))


def redirecting(port: str, host: str) -> Any:
    """A name node that sends who writes to a data node, and that data node at the same port."""

    def answer(handler: Any) -> None:
        if handler.path.startswith("/webhdfs"):
            handler.send_response(307)
            handler.send_header("Location", f"http://{host}:{port}/data")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        else:
            send(handler, 201, b"")

    return answer


@pytest.fixture
def data_node(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The addresses of names, as the resolver has them for the gate; connections go where the system has them."""
    known: dict[str, str] = {}

    def resolve(host: str, *_: Any, **__: Any) -> list[Any]:
        return [(2, 1, 6, "", (known.get(host, host), 0))]

    monkeypatch.setattr(allowed_hosts, "_resolved", resolve)
    return known


def test_a_data_node_that_the_name_node_names_is_judged(data_node: dict[str, str]) -> None:
    with scripted((200, None)) as node:
        port = node.url.rpartition(":")[2]
        for host, address, refused in (
            ("127.0.0.1", "127.0.0.1", ""),
            ("localhost", "127.0.0.1", ""),
            ("localhost", "10.0.0.9", r"localhost \(10\.0\.0\.9\)"),
            ("169.254.169.254", "169.254.169.254", r"169\.254\.169\.254"),
        ):
            data_node[host] = address
            node.answers, node.asked[:] = [(0, redirecting(port, host))], []
            lake = store(f"webhdfs://127.0.0.1:{port}/lake", "127.0.0.1", "::1")
            if refused:
                with pytest.raises(StoreError, match=refused):
                    lake.create("a")
            else:
                lake.create("a")
            lake.close()
            assert [one.path.partition("?")[0] for one in node.asked][1:] == ([] if refused else ["/data"])


def test_reading_follows_no_redirect_to_a_refused_host(data_node: dict[str, str]) -> None:
    with scripted((200, None)) as node:
        node.answers = [(0, redirecting("80", "169.254.169.254"))]
        lake = store(node.url.replace("http://", "webhdfs://") + "/lake", "*")
        with pytest.raises(StoreError, match=r"169\.254\.169\.254"):
            lake.exists("a")
        lake.close()


def test_a_name_with_another_address_the_second_time(data_node: dict[str, str]) -> None:
    with scripted((200, None)) as node:
        data_node["localhost"] = "10.0.0.9"  # what the gate is told; the connection gets 127.0.0.1
        lake = store(f"webhdfs://localhost:{node.url.rpartition(':')[2]}/lake", "10.0.0.0/8")
        with pytest.raises(StoreError, match=r"localhost \((127\.0\.0\.1|::1)\)"):
            lake.exists("a")
        lake.close()
        assert not node.asked


def test_a_name_node_without_address_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowed_hosts, "_resolved", lambda *_, **__: [])
    lake = store("webhdfs://nn:9870/lake", "10.0.0.0/8")
    with pytest.raises(RetriableError, match="no address now"):
        lake.exists("a")


def test_the_endpoint_of_s3_is_judged(data_node: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    login = {"s3_region": "eu-west-1", "s3_credentials_provider_class": "AnonymousCredentials"}
    with scripted((200, b"<ListBucketResult/>")) as played:
        lake = store("s3://lake", "10.0.0.0/8", s3_endpoint=played.url, **login)
        with pytest.raises(StoreError, match=ALLOWED_HOSTS):
            lake.exists("")
        assert not played.asked
        lake = store("s3://lake", "127.0.0.1", s3_endpoint=played.url, s3_proxy_url="http://10.0.0.1:1", **login)
        with pytest.raises(StoreError, match=r"s3\.proxy\.url"):
            lake.exists("")
    data_node["s3.eu-west-1.amazonaws.com"] = "203.0.113.1"
    with pytest.raises(ConfigError, match=r"s3\.eu-west-1\.amazonaws\.com"):
        store("s3://lake", "*.example.com", **login)  # at validation, before anything is asked
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match=r"s3\.us-east-1\.amazonaws\.com"):
        store("s3a://lake", "localhost")
    with pytest.raises(StoreError, match=r"s3\.eu-west-1\.amazonaws\.com"):
        store("s3://lake", "10.0.0.0/8", **login).exists("")
    for allowed in ("*.amazonaws.com", "s3.eu-west-1.amazonaws.com", "*"):
        store("s3://lake", allowed, **login)


CONF = {
    "fs.defaultFS": "hdfs://lake",
    "dfs.ha.namenodes.lake": "a, b",
    "dfs.namenode.rpc-address.lake.a": "one:8020",
    "dfs.namenode.rpc-address.lake.b": "two:8020",
    "dfs.namenode.https-address.lake.a": "web:9871",
    "dfs.namenode.https-address.lake.b": "web:9871",
    "fs.viewfs.mounttable.home.link./x": "hdfs://lake/x",
    "fs.viewfs.mounttable.home.link./y": "hdfs://nn:8020/y",
}


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("hdfs://nn:8020/", ["nn"]),
        ("hdfs://lake/", ["one", "two"]),
        ("hdfs:///", ["one", "two"]),
        ("viewfs://home/", ["one", "two", "nn"]),
        ("webhdfs://nn1:9870,nn2:9870/", ["nn1", "nn2"]),
        ("swebhdfs://lake/", ["web"]),
    ],
)
def test_the_hosts_of_hadoops_own_client(url: str, hosts: list[str]) -> None:
    assert client_hosts(url, CONF) == hosts
