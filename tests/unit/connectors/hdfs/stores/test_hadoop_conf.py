"""Addresses of WebHDFS, by a URL and Hadoop's configuration files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.hdfs.stores.hadoop_conf import properties, web_addresses

SINGLE = {"fs.defaultFS": "hdfs://nn:8020", "dfs.namenode.http-address": "nn:9870"}
PAIR = {
    "fs.defaultFS": "hdfs://lake",
    "dfs.nameservices": "lake",
    "dfs.ha.namenodes.lake": "a, b",
    "dfs.namenode.http-address.lake.a": "one:9870",
    "dfs.namenode.http-address.lake.b": "two:9870",
    "dfs.namenode.https-address.lake.a": "one:9871",
    "dfs.namenode.https-address.lake.b": "two:9871",
}


@pytest.mark.parametrize(
    ("url", "conf", "addresses"),
    [
        ("webhdfs://nn:9870/lake", {}, ["http://nn:9870"]),
        ("webhdfs://one:9870,two:9870", {}, ["http://one:9870", "http://two:9870"]),
        ("swebhdfs://nn:9871", {}, ["https://nn:9871"]),
        ("webhdfs://lake/x", PAIR, ["http://one:9870", "http://two:9870"]),
        ("swebhdfs://lake/x", PAIR, ["https://one:9871", "https://two:9871"]),
        ("hdfs://lake/x", PAIR, ["http://one:9870", "http://two:9870"]),
        ("hdfs://lake/x", {**PAIR, "dfs.http.policy": "HTTPS_ONLY"}, ["https://one:9871", "https://two:9871"]),
        ("hdfs://nn:8020/x", SINGLE, ["http://nn:9870"]),
        ("hdfs://nn:8020/x", {**SINGLE, "dfs.namenode.http-address": "0.0.0.0:9870"}, ["http://nn:9870"]),
        ("hdfs://nn:8020/x", {**SINGLE, "dfs.namenode.http-address": "${host}:9870"}, []),
        ("hdfs://other:8020/x", SINGLE, []),
        ("hdfs://nn:8020/x", {}, []),
        ("hdfs://lake/x", {name: text for name, text in PAIR.items() if not name.endswith("lake.b")}, []),
    ],
)
def test_the_addresses(url: str, conf: Mapping[str, str], addresses: list[str]) -> None:
    assert web_addresses(url, conf) == addresses


def test_both_files_count(tmp_path: Path) -> None:
    for name, key in (("core-site.xml", "a"), ("hdfs-site.xml", "b")):
        text = f"<configuration><property><name> {key} </name><value> 1 </value></property></configuration>"
        (tmp_path / name).write_text(text)
    assert properties(str(tmp_path)) == {"a": "1", "b": "1"}
    assert properties("") == {}


def test_a_folder_without_them_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"hadoop\.conf\.dir.*no core-site\.xml and no hdfs-site\.xml"):
        properties(str(tmp_path))
    (tmp_path / "core-site.xml").write_text("<configuration>")
    with pytest.raises(ConfigError, match=r"core-site\.xml cannot be read"):
        properties(str(tmp_path))
