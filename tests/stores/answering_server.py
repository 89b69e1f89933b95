"""A small HTTP server with the answers that a test chooses: errors of a store, or another server's answers, counted."""

import http.client
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class RequestLog:
    """An endpoint, with the method and path of each request to it, and the access key that signed it."""

    endpoint: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)

    def methods(self) -> set[str]:
        return {method for method, _ in self.requests}


_ACCESS_KEY = re.compile(r"Credential=([^/,]+)/")

Answer = Callable[[int, str], tuple[int, bytes] | None]
"""Returns a status and a body for a request's number and path, or None to forward the request to the real server."""


@contextmanager
def server(answer: Answer, behind: str = "http://127.0.0.1:1") -> Iterator[RequestLog]:
    log, lock = RequestLog(), threading.Lock()
    address = urlsplit(behind)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            with lock:
                number = len(log.requests)
                log.requests.append((self.command, self.path))
                key = _ACCESS_KEY.search(self.headers.get("Authorization", ""))
                log.keys.append(None if key is None else key[1])
            said = answer(number, self.path)
            if said is None:
                connection = http.client.HTTPConnection(address.hostname or "", address.port)
                connection.request(self.command, self.path, headers=dict(self.headers.items()))
                found = connection.getresponse()
                status, body, headers = found.status, found.read(), found.getheaders()
            else:
                (status, body), headers = said, []
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_HEAD = do_PUT = _handle

        def log_message(self, *_: object) -> None:
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.daemon_threads = True
    log.endpoint = f"http://127.0.0.1:{made.server_address[1]}"
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    try:
        yield log
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


def error(code: str, status: int = 403) -> Answer:
    """Return the same S3 error to every request."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>AKIASECRET</Message></Error>".encode()
    return lambda number, path: (status, body)
