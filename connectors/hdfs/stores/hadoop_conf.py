"""Hadoop's configuration files, as far as Python needs them: the WebHDFS addresses of a file system."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from xml.etree import ElementTree

from headrace.config.problems import ConfigError, Problem
from headrace.config.worker.allowed_hosts import hosts_of

FILES: Final = ("core-site.xml", "hdfs-site.xml")
WEB_SCHEMES: Final = {"webhdfs": "http", "swebhdfs": "https"}


def properties(conf_dir: str) -> Mapping[str, str]:
    """Return the properties of a folder's core-site.xml and hdfs-site.xml; none if no folder is named.

    Errors: ConfigError if the folder has neither, or one cannot be read.
    """
    found: dict[str, str] = {}
    files = [path for name in FILES if conf_dir and (path := Path(conf_dir, name)).exists()]
    if conf_dir and not files:
        raise _unusable(conf_dir, f"It has no {' and no '.join(FILES)}")
    for path in files:
        try:
            for entry in ElementTree.parse(path).iter("property"):
                found[(entry.findtext("name") or "").strip()] = (entry.findtext("value") or "").strip()
        except (OSError, ElementTree.ParseError) as error:
            raise _unusable(conf_dir, f"{path.name} cannot be read: {error}") from error
    return found


def web_addresses(url: str, conf: Mapping[str, str]) -> list[str]:
    """Return the addresses of WebHDFS for a URL, one for each name node; none if they are unknown.

    `webhdfs://a:9870,b:9870` names them itself. For `hdfs:` and for a name service the configuration does.
    """
    parts = urlsplit(url)
    hosts, scheme = parts.netloc.rpartition("@")[2], WEB_SCHEMES.get(parts.scheme)
    if scheme is not None and f"dfs.ha.namenodes.{hosts}" not in conf:
        return [f"{scheme}://{host}" for host in hosts.split(",") if host]
    if scheme is None:
        scheme = "https" if conf.get("dfs.http.policy") == "HTTPS_ONLY" else "http"
    key = f"dfs.namenode.{scheme}-address"
    nodes = conf.get(f"dfs.ha.namenodes.{hosts}", "")
    keys = [f"{key}.{hosts}.{node.strip()}" for node in nodes.split(",") if node.strip()]
    if not keys and f"hdfs://{hosts}" == conf.get("fs.defaultFS", "").rstrip("/"):
        keys = [key]
    found = [conf.get(one, "").replace("0.0.0.0", hosts.partition(":")[0]) for one in keys]
    if not found or any(not address or "$" in address for address in found):
        return []
    return [f"{scheme}://{address}" for address in found]


def client_hosts(url: str, conf: Mapping[str, str]) -> list[str]:
    """Return the hosts that Hadoop's own client asks for a URL: a name service's, a mount table's, or the URL's own."""
    parts = urlsplit(url)
    if parts.scheme in WEB_SCHEMES and (addresses := web_addresses(url, conf)):
        return list(dict.fromkeys(host for address in addresses for host in hosts_of(address)))
    own = parts.netloc.rpartition("@")[2]
    services = [own] if own else [urlsplit(conf.get("fs.defaultFS", "")).netloc]
    if parts.scheme == "viewfs":
        links = f"fs.viewfs.mounttable.{own or 'default'}."
        services = [
            urlsplit(target).netloc for key, target in conf.items() if key.startswith(links) and "://" in target
        ]
    found = []
    for service in services:
        nodes = conf.get(f"dfs.ha.namenodes.{service}", "").split(",")
        rpc = [conf.get(f"dfs.namenode.rpc-address.{service}.{node.strip()}", "") for node in nodes]
        found += [host for address in filter(None, rpc) for host in hosts_of(f"hdfs://{address}")]
        found += [] if any(rpc) else hosts_of(f"hdfs://{service}")
    return list(dict.fromkeys(found))


def _unusable(conf_dir: str, why: str) -> ConfigError:
    advice = f"Set it to a directory on the worker's host that holds {' and '.join(FILES)}."
    return ConfigError(Problem("hadoop.conf.dir", conf_dir, f"{why}.", advice))
