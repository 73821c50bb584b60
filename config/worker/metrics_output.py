"""The worker's settings of where its metrics, and the spans of its batches, are sent beside `GET /metrics`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.config.settings import Importance, Setting, Type
from headrace.config.validators import Check, Range
from headrace.config.values import invalid

STATSD: Final = "metrics.statsd"
GRAPHITE: Final = "metrics.graphite"
INTERVAL: Final = "metrics.output.interval.ms"
OTLP: Final = "otel.exporter.otlp.endpoint"
_NEEDED: Final = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def _otlp(name: str, value: Any) -> str | None:
    if value is None:
        return None
    url = urlsplit(value)
    if url.scheme not in ("http", "https") or not url.hostname:
        return invalid(name, value, "It must be a URL such as http://localhost:4318, of OTLP over HTTP")
    if not all(map(_is_there, _NEEDED)):
        return invalid(name, value, "OpenTelemetry is not installed here: pip install 'headrace[otel]'")
    return None


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _server(prefix: str, what: str, port: int) -> tuple[Setting, ...]:
    low, begin = Importance.LOW, f"What the names that are sent to the {what} begin with."
    return (
        Setting(f"{prefix}.host", Type.STRING, None, None, low, f"The {what} that metrics are sent to; none: nowhere."),
        Setting(f"{prefix}.port", Type.INT, port, Range(1, 65_535), low, f"The port of the {what}."),
        Setting(f"{prefix}.prefix", Type.STRING, "connect", None, low, begin),
    )


METRICS_OUTPUT: Final = (
    *_server(STATSD, "StatsD server", 8125),
    *_server(GRAPHITE, "Graphite server", 2003),
    Setting(
        INTERVAL, Type.LONG, 10_000, Range(1_000), Importance.LOW, "How often metrics are sent to StatsD and Graphite."
    ),
    Setting(
        OTLP,
        Type.STRING,
        None,
        Check(_otlp, "a URL of OTLP over HTTP"),
        Importance.LOW,
        "The URL of an OpenTelemetry collector, such as http://localhost:4318, that gets metrics and a span for each "
        "batch, over HTTP; needs headrace[otel]. All else of it is set by the SDK's variables OTEL_….",
    ),
)
