"""A collector of OpenTelemetry on this machine: keeps what it is sent."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Collector(ThreadingHTTPServer):
    """What speaks OTLP over HTTP on this machine."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Post)
        self.spans, self.metrics, self.status = [], [], 200
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Post(BaseHTTPRequestHandler):
    def do_POST(self):
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/v1/traces":
            told = ExportTraceServiceRequest.FromString(body)
            self.server.spans += [s for r in told.resource_spans for scope in r.scope_spans for s in scope.spans]
        else:
            told = ExportMetricsServiceRequest.FromString(body)
            self.server.metrics += [
                m for r in told.resource_metrics for scope in r.scope_metrics for m in scope.metrics
            ]
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass
