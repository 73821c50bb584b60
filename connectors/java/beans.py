"""Samples of the numbers in a host's beans, with the JMX exporter's default names.

    debezium.postgres:type=connector-metrics,context=streaming,server=db   its attribute NumberOfErroneousEvents
    debezium_postgres_connector_metrics_NumberOfErroneousEvents{context="streaming",server="db"}

The value of the first key becomes part of the name, the others become labels.

Source: prometheus/jmx_exporter, `JmxCollector.defaultExport` and `JmxMBeanPropertyCache`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from headrace.plugins.samples import Sample

MOST: Final = 5_000
"""Maximum number of samples read from a host."""

_PROPERTY: Final = re.compile(r'([^,=:*?]+)=("(?:[^\\"]|\\.)*"|[^,=:"]*)')
_ESCAPED: Final = re.compile(r"\\(.)")
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9:]+")
_NOT_IN_LABELS: Final = re.compile(r"[^a-zA-Z0-9]+")


def samples(read: str) -> Iterator[Sample]:
    """Yield the samples of what `Beans.read` of `host/Beans.java` found."""
    for domain, keys, path, value in json.loads(read):
        yield _sample(domain, keys, path, float(value))


def distinct(found: Iterable[Sample]) -> list[Sample]:
    """Return one sample for each name with its labels: several hosts may briefly have the same beans."""
    return list({(one.name, *sorted(one.labels.items())): one for one in found}.values())


def _sample(domain: str, keys: str, path: Sequence[str], value: float) -> Sample:
    (key, first), *rest = [(key, _unquoted(text)) for key, text in _PROPERTY.findall(keys)]
    name = _safe(_NOT_IN_NAMES, "_".join([domain, first, *path]))
    labels = {_safe(_NOT_IN_LABELS, key): text for key, text in rest}
    return Sample(name, labels, value, f"{'.'.join(path)} of the Java beans {domain}:{key}={first}")


def _safe(unfit: re.Pattern[str], name: str) -> str:
    safe = unfit.sub("_", name)
    return f"_{safe}" if safe[:1].isdigit() else safe


def _unquoted(text: str) -> str:
    r"""Undo `ObjectName.quote`, which also writes a line end as `\n`."""
    if not text.startswith('"'):
        return text
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], text[1:-1])
