"""Mutators of HTTP answers: their JSON, status, headers, and framing."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import drawn_values
import mutate_json

TOKEN = "a-secret-that-nobody-prints"
"""The secret by which servers identify the client, which they may repeat."""

_STATUS = (
    "HTTP/1.1 204 No Content",
    "HTTP/1.1 206 Partial Content",
    "HTTP/1.1 301 Moved",
    "HTTP/1.1 304 Not Modified",
    "HTTP/1.1 307 Temporary",
    "HTTP/1.1 400 Bad Request",
    "HTTP/1.1 401 No",
    "HTTP/1.1 403 No",
    "HTTP/1.1 404 No",
    "HTTP/1.1 409 No",
    "HTTP/1.1 419 No",
    "HTTP/1.1 429 Busy",
    "HTTP/1.1 500 No",
    "HTTP/1.1 501 No",
    "HTTP/1.1 503 Busy",
    "HTTP/1.1 599 No",
    "HTTP/1.1 999 No",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK",
    "HTTP/1.1 -1 No",
    "HTTP/1.1 2000 No",
    "HTTP/1.1 abc",
    "HTTP/0.9 200 OK",
    "HTTP/2 200",
    "ICY 200 OK",
    "",
    "\x00",
    "HTTP/1.1 200 " + "a" * 70_000,
)
_HEADERS = (
    "Content-Length: 0",
    "Content-Length: -1",
    "Content-Length: 99999999999999999999",
    "Content-Length: 7, 7",
    "Content-Length: abc",
    "Content-Encoding: gzip",
    "Content-Type: text/html; charset=utf-16",
    "Retry-After: 1e9",
    "Retry-After: 99999999999",
    "Retry-After: ²",
    "Retry-After: -5",
    "Retry-After: Wed, 21 Oct 2065 07:28:00 GMT",
    "Retry-After: " + "9" * 400,
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Location: http://127.0.0.1:9/elsewhere",
    "Location: file:///etc/passwd",
    "Location: http://169.254.169.254/latest",
    "Set-Cookie: a=b",
    "X: \x1b[31m\x00",
    "no colon",
    ": empty",
    "X: " + "a" * 70_000,
    *(f"X{i}: a" for i in range(3)),
)
_PLACES = (
    "file:///",
    "file:///etc",
    "file:///proc/self/environ",
    "/etc",
    "..",
    "",
    "s3://bucket/t",
    "s3a://bucket",
    "gs://bucket/t",
    "abfss://c@a.dfs.core.windows.net/t",
    "http://169.254.169.254/latest",
    "https://evil/t",
    "memory://evil/t",
    "ftp://evil/t",
    "hdfs://evil/t",
    "file://evil/share/t",
    "\\\\evil\\share",
    "//evil/share",
    "s3://",
    "://",
    "a:b",
    "file:///\x00",
    "file:///%2e%2e/t",
    "jar:file:///t!/a",
    "simplecache::s3://bucket/t",
)


def body(data: bytes, rng: Random) -> bytes:
    """Apply one or two changes to the JSON, with the correct content length."""
    head, content = parts(data)
    return framed(head, mutate_json.document(content, rng))


def places(data: bytes, rng: Random) -> bytes:
    """Change a location to another store, host, or folder, or to a path outside the named one."""
    head, content = parts(data)
    document = json.loads(content)
    locations = _find_all(document, lambda value: isinstance(value, str) and "/" in value)
    if not locations:
        raise ValueError("no location")
    inside, key = rng.choice(locations)
    location = inside[key]
    inside[key] = rng.choice(
        (
            *_PLACES,
            f"{location}/..",
            f"{location}/../..",
            f"{location}/",
            f"{location}//",
            location.replace("table", "table2"),
            f"{location}?a=b#c",
            location.partition("://")[2],
            location.upper(),
            f"{location}\x00",
            location.rpartition("/")[0],
            f"{location}%00",
            location * 300,
        )
    )
    return framed(head, json.dumps(document).encode())


def versions(data: bytes, rng: Random) -> bytes:
    """Change a version, size, or time slightly, or remove or repeat a commit."""
    head, content = parts(data)
    document = json.loads(content)
    lists = [value for value in document.values() if isinstance(value, list) and value]
    if lists and rng.random() < 0.3:
        entries = rng.choice(lists)
        again = rng.choice(([], [rng.choice(entries)] * 2))
        place = rng.randrange(len(entries))
        entries[place : place + 1] = again
    else:
        inside, key = rng.choice(_find_all(document, lambda value: type(value) is int))
        inside[key] += rng.choice((-1, 1, -inside[key]))
    return framed(head, json.dumps(document).encode())


def status(data: bytes, rng: Random) -> bytes:
    """Change the status, with the same content or the text of an error."""
    head, content = parts(data)
    _, _, headers = head.partition(b"\r\n")
    words = drawn_values.text(rng, "what is wrong").encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    words = rng.choice((words, words, f"invalid token {TOKEN}"))
    kinds = ("NoSuchTableException", "NoSuchCatalogException", "UnsupportedTableFormatException", words)
    error = {"error": {"type": rng.choice(kinds), "message": words, "code": rng.choice((404, None, "a"))}}
    page = b"<!DOCTYPE html><html><body>500</body></html>"
    content = rng.choice((content, b"", page, json.dumps(error).encode(), json.dumps({"message": [words]}).encode()))
    return framed(rng.choice(_STATUS).encode("utf-8") + b"\r\n" + headers, content)


def headers(data: bytes, rng: Random) -> bytes:
    """Add headers, or very many of them, before or after the others."""
    head, content = parts(data)
    first, *others = head.split(b"\r\n")
    more = [rng.choice(_HEADERS).encode("utf-8") for _ in range(rng.choice((1, 1, 2, 200)))]
    return b"\r\n".join([first, *rng.choice((more + others, others + more, more)), b"", content])


def chunks(data: bytes, rng: Random) -> bytes:
    """Send the content in chunks, complete or incomplete, some with wrong sizes."""
    head, content = parts(data)
    width = rng.choice((1, 7, 1000))
    pieces = [content[at : at + width] for at in range(0, len(content), width)]
    written = [b"%x\r\n%s\r\n" % (len(part), part) for part in pieces] + [b"0\r\n\r\n"]
    place = rng.randrange(len(written))
    wrong = (b"fffffffffffffff\r\n", b"-1\r\na\r\n", b"zz\r\n", b"", b"0\r\n\r\n", b"1" * 70_000, b"0x1\r\na\r\n")
    if rng.random() < 0.7:
        written[place] = rng.choice(wrong)
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
    return b"\r\n".join([*lines, b"Transfer-Encoding: chunked", b"", b"".join(written)])


def parts(data: bytes) -> tuple[bytes, bytes]:
    """Return the head and the content of an answer."""
    head, _, content = data.partition(b"\r\n\r\n")
    return head, content


def framed(head: bytes, content: bytes) -> bytes:
    """Return an answer with a correct content length."""
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(content), b"", content])


def _find_all(value: Any, is_match: Callable[[Any], bool]) -> list[tuple[Any, Any]]:
    """Return the containers and keys of all matching values below a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    matches: list[tuple[Any, Any]] = []
    for key, item in items:
        matches += [(value, key)] if is_match(item) else _find_all(item, is_match)
    return matches
