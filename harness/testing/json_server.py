"""An HTTP server on this machine that answers with JSON, as the base of the catalogs of `harness.testing`."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeAlias
from urllib.parse import parse_qsl, urlsplit

HttpAnswer: TypeAlias = tuple[int, Mapping[str, str], Any]
"""The status, the headers, and the body. Bytes are sent unchanged, None as an empty body, and other values as JSON."""


class JsonServer:
    """A server on a free port of the loopback interface, which runs during a `with` block.

    Requests are answered in threads, so several may be answered at once.

    Attributes:
        requests: The requests received, as a method and a path.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def uri(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any
    ) -> HttpAnswer:
        """Return the answer to a request.

        Args:
            method: The HTTP method.
            path: The path as it was sent, without the query.
            query: The query parameters.
            headers: The headers, with names in lower case.
            body: The parsed body. None if there is none.
        """
        raise NotImplementedError


def _handler(server: JsonServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            parts = urlsplit(self.path)
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            query = dict(parse_qsl(parts.query))
            received = {name.lower(): value for name, value in self.headers.items()}
            try:
                body = json.loads(sent or b"null")
            except ValueError:
                self._send(400, {}, None)
            else:
                self._send(*server.answer(self.command, parts.path, query, received, body))

        def _send(self, status: int, headers: Mapping[str, str], content: Any) -> None:
            data = content if isinstance(content, bytes) else b"" if content is None else json.dumps(content).encode()
            with contextlib.suppress(ConnectionError):  # the client may have closed the connection
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", "Content-Length": len(data), **headers}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

        do_GET = do_POST = do_DELETE = do_HEAD = _answer

        def log_message(self, *_: object) -> None:
            return None

    return Handler
