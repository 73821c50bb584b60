"""MirrorMaker's own client and its store of offset syncs, in the JVM of the test session's Spark driver."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from headrace.connectors.mirror.formats import OffsetSync
from headrace.plugins.interop.jvm import jars
from headrace.worker.engine.driver import Spark

_JAVA: Final = (Path(__file__).parent / "MirrorOracle.java").read_text(encoding="utf-8")


class MirrorOracle:
    """Apache's side; there is one in a test session, as py4j knows classes by their names."""

    def __init__(self, engine: Spark) -> None:
        spark = engine.session()
        jvm: Any = spark._jvm
        gateway: Any = spark.sparkContext._gateway
        self._strings = lambda texts: _array(gateway, jvm.java.lang.String, texts)
        urls = _array(gateway, jvm.java.net.URL, [_url(jvm, jar) for jar in jars.fetch("connect")])
        loader = jvm.java.net.URLClassLoader(urls, jvm.java.lang.ClassLoader.getPlatformClassLoader())
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(_JAVA)
        made = compiler.getClassLoader().loadClass("MirrorOracle")
        nothing = _array(gateway, jvm.java.lang.Class, []), _array(gateway, jvm.java.lang.Object, [])
        self._java = made.getDeclaredConstructor(nothing[0]).newInstance(nothing[1])
        self._thread = jvm.java.lang.Thread

    def _answer(self, method: str, *arguments: Any) -> str:
        """Return a method's answer; the thread gets the class loader back that the method takes from it."""
        thread = self._thread.currentThread()
        before = thread.getContextClassLoader()
        try:
            return str(getattr(self._java, method)(*arguments))
        finally:
            thread.setContextClassLoader(before)

    def translate_offsets(self, bootstrap: str, alias: str, group: str) -> dict[tuple[str, int], tuple[int, str]]:
        """`RemoteClusterUtils.translateOffsets`: offset and metadata by topic and partition."""
        lines = self._answer("translateOffsets", bootstrap, alias, group).splitlines()
        rows = [line.split(" ", 3) for line in lines]
        return {(row[0], int(row[1])): (int(row[2]), row[3]) for row in rows}

    def upstream_clusters(self, bootstrap: str) -> str:
        """`RemoteClusterUtils.upstreamClusters`, with commas between."""
        return self._answer("upstreamClusters", bootstrap)

    def checkpoint_topics(self, bootstrap: str) -> str:
        """`RemoteClusterUtils.checkpointTopics`, with commas between."""
        return self._answer("checkpointTopics", bootstrap)

    def replication_hops(self, bootstrap: str, alias: str) -> int:
        """`RemoteClusterUtils.replicationHops`."""
        return int(self._answer("replicationHops", bootstrap, alias))

    def translated(self, syncs: Sequence[tuple[int, int]], upstream: Sequence[int]) -> list[int | None]:
        """Return what `OffsetSyncStore` translates these offsets to, after these syncs; None: nothing."""
        key = OffsetSync("t", 0, 0, 0).key()
        pairs = self._strings([f"{up}:{down}" for up, down in syncs])
        answer = self._answer("translated", key, pairs, self._strings([str(offset) for offset in upstream]))
        return [None if number == "-1" else int(number) for number in answer.split()]


def _url(jvm: Any, jar: Path) -> Any:
    return jvm.java.io.File(str(jar)).toURI().toURL()


def _array(gateway: Any, kind: Any, items: Sequence[Any]) -> Any:
    array = gateway.new_array(kind, len(items))
    for number, item in enumerate(items):
        array[number] = item
    return array
