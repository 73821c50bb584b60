from __future__ import annotations

from pathlib import Path

from headrace.connectors.java.chain import chain_of
from headrace.plugins.jars import ConfiguredJar, JarPlugin, JavaChain, JavaLink


def test_the_host_is_told_of_classes_with_their_jars() -> None:
    transform = JarPlugin("org.x.T", "transformation", Path("/p/x"), (Path("/p/x/a.jar"),), "1")
    own = JarPlugin("org.apache.kafka.connect.transforms.predicates.HasHeaderKey", "predicate", Path(), (), None)
    link = JavaLink(ConfiguredJar(transform, {"a": "b"}), ConfiguredJar(own, {"name": "h"}), negate=True)
    assert chain_of(JavaChain((link,), tolerate=True, retry_timeout_ms=-1, retry_delay_max_ms=5)) == {
        "links": [
            {
                "transform": {
                    "plugin": {"class": "org.x.T", "location": "/p/x", "jars": ["/p/x/a.jar"]},
                    "config": {"a": "b"},
                },
                "predicate": {
                    "plugin": {"class": own.class_name, "location": ".", "jars": []},
                    "config": {"name": "h"},
                },
                "negate": True,
            }
        ],
        "converters": {},
        "tolerate": True,
        "retry_ms": -1,
        "most_delay_ms": 5,
    }
    assert chain_of(JavaChain(tolerate=True)) is None
