"""Paths in a Delta log: URI references to the files that they name (delta L38 to L41)."""

from __future__ import annotations

import os
import posixpath
import re
from urllib.parse import unquote

from harness.errors import InvalidTableError, RequestError, UnsupportedError
from harness.storage.paths import is_local, join, local_path
from harness.storage.stores import Storage

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_LOCAL = re.compile(r"file:(?://(?:localhost)?)?(?=/(?!/))", re.IGNORECASE)


def table_root(location: str) -> str:
    """The table's folder: absolute, without a slash at its end."""
    return _normal(os.path.abspath(local_path(location))) if is_local(location) else location.rstrip("/")


def canonical(recorded: str, root: str) -> str:
    """The file that a path in the log names: absolute, decoded once; equal for all spellings of one file.

    Raises:
        InvalidTableError: the path is empty or badly escaped (delta L38).
        UnsupportedError: it is on another host.
    """
    if not recorded:
        raise InvalidTableError("A path in the log is empty", cause="LogCorrupt", rule="delta L25")
    if _LOCAL.match(recorded):
        return _normal(_decoded(_LOCAL.sub("", recorded, count=1)))
    scheme = _SCHEME.match(recorded)
    if scheme is not None and scheme[1].lower() == "file":
        raise UnsupportedError(f"Cannot open {recorded}: it is not on this host", rule="delta L41")
    if scheme is not None:
        return scheme[1].lower() + _remote(_decoded(recorded[scheme.end(1) :]))
    path = _decoded(recorded)
    if is_local(root):
        return _normal(path if path.startswith("/") else f"{root}/{path}")
    store = re.match(r"[^/]*//[^/]*", root)
    return (store[0] if store else "") + _remote(path) if path.startswith("/") else _remote(join(root, path))


def check_readable(path: str, storage: Storage) -> None:
    """Returns if a physical path can be opened by what is installed.

    Raises:
        UnsupportedError: its scheme is not served (delta L41).
    """
    if path.startswith("/"):
        return
    try:
        storage.client(path)
    except (RequestError, OSError) as error:
        raise UnsupportedError("Cannot open files of this scheme", file=path, rule="delta L41") from error
    if "://" not in path:
        raise UnsupportedError("Cannot open files of this scheme", file=path, rule="delta L41")


def _decoded(text: str) -> str:
    if re.search(r"%(?![0-9A-Fa-f]{2})|%00|\x00", text):
        raise InvalidTableError(f"Invalid escapes in path {text!r}", cause="LogCorrupt", rule="delta L38")
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidTableError(f"Invalid escapes in path {text!r}", cause="LogCorrupt", rule="delta L38") from error


def _normal(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/")


def _remote(uri: str) -> str:
    """Without `.` and `..` segments."""
    kept: list[str] = []
    for segment in uri.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    return "/".join(kept)
