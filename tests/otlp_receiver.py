"""A collector of OpenTelemetry on loopback: keeps what it gets over HTTP, as OpenTelemetry's own messages."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_MESSAGES: dict[str, Any] = {"/v1/metrics": ExportMetricsServiceRequest, "/v1/traces": ExportTraceServiceRequest}


class Receiver(ThreadingHTTPServer):
    """Keeps what it gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got: list[Any] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def spans(self) -> list[Any]:
        """All spans so far."""
        traces = [one for one in self.got if isinstance(one, ExportTraceServiceRequest)]
        return [span for one in traces for span in one.resource_spans[0].scope_spans[0].spans]

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.got.append(_MESSAGES[self.path].FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...
