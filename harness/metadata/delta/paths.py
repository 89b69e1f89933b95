"""Paths in the log: URI references, and the files to which they refer.

The same file may be recorded as `a%20b`, `a b`, `/table/a%20b`, or `file:///table/a%20b`, and a remove must cancel an
add with another spelling. Each path therefore has a *canonical* form, decoded and absolute. Unless a `PathMap` moves
the file, the canonical form is its location: a plain path for local files, and a URI without escapes for others.

Replay uses a *key*: the canonical path, or only the part below the table's folder if that part is a plain relative
path. In most tables the keys are the recorded paths themselves, which saves memory: a million paths take 100 MB.
"""

from __future__ import annotations

import os
import posixpath
import re
from urllib.parse import unquote_to_bytes

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import InvalidTableError, RequestError, UnsupportedError
from harness.metadata.model.arrow_values import array_of, scalar_of, text_bytes
from harness.storage.paths import PhysicalPath, RecordedPath, is_local, join, local_path, slashed
from harness.storage.records import dataclass
from harness.storage.stores import Storage

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)")
_LOCAL_URI = re.compile(r"file:(?://(?:localhost)?(?=/)|(?=/(?!/)))", re.IGNORECASE)
_BASE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_DOTS = re.compile(r"(?:^|/)\.{1,2}(?:/|$)")
_BEGINS_WITH_SCHEME = r"^[A-Za-z][A-Za-z0-9+.-]*:"
_ABSOLUTE = rf"{_BEGINS_WITH_SCHEME}|^/"
# Paths that must be resolved one by one: with escapes, schemes, absolute paths, empty or dot segments, or NUL.
_NEEDS_RESOLVING = rf"[%\x00]|{_ABSOLUTE}|(^|/)\.{{0,2}}(/|$)"
_PERCENT, _NUL, _COLON, _SLASH, _DOT = b"%\x00:/."


@dataclass(frozen=True, slots=True)
class TableRoot:
    """The folder to which relative paths refer.

    Attributes:
        path: The canonical path, without a trailing slash unless it is the root of the local file system.
    """

    path: PhysicalPath

    @staticmethod
    def at(location: PhysicalPath) -> TableRoot:
        """Return the root at `location`, a physical path without escapes (delta L39)."""
        if is_local(location):
            return TableRoot(PhysicalPath(_normalize_local(slashed(os.path.abspath(local_path(location))))))
        return TableRoot(PhysicalPath(location.rstrip("/")))

    @property
    def is_local(self) -> bool:
        """True if the table is on the local file system."""
        return is_local(self.path)

    @property
    def prefix(self) -> str:
        """The prefix that makes a relative path canonical."""
        return self.path if self.path.endswith("/") else self.path + "/"

    @property
    def log(self) -> PhysicalPath:
        """The folder of the log."""
        return join(self.path, "_delta_log")

    def canonical(self, recorded: str) -> RecordedPath:
        """Return the canonical path of a recorded path. Relative paths are resolved against this folder.

        Raises:
            InvalidTableError: The path is empty or has an invalid escape. Rules: delta L25, L38.
            UnsupportedError: The path is a `file:` URI of another host. Rule: delta L41.
        """
        return RecordedPath(self._resolve(recorded))

    def _resolve(self, recorded: str) -> str:
        if recorded == "":
            raise InvalidTableError("A path in the log is empty", cause="LogCorrupt", rule="delta L25")
        if _LOCAL_URI.match(recorded) is not None:
            return _normalize_local(local_path(decode_path(_LOCAL_URI.sub("", recorded, count=1))))
        scheme = _SCHEME.match(recorded)
        # a drive letter in a local path on Windows
        is_drive = scheme is not None and os.name == "nt" and len(scheme.group()) == 1
        if scheme is not None and not is_drive:
            if scheme.group().lower() == "file":
                raise UnsupportedError(f"Cannot open {recorded}: it is not a path of this host", rule="delta L41")
            return _normalize_remote(scheme.group().lower() + decode_path(recorded[scheme.end() :]))
        path = decode_path(recorded)
        if self.is_local:
            return _normalize_local(path if recorded.startswith("/") or scheme is not None else join(self.path, path))
        if recorded.startswith("/"):  # an absolute path within the table's store
            base = _BASE.match(self.path)
            assert base is not None
            return _normalize_remote(base.group() + path)
        return _normalize_remote(join(self.path, path))


def decode_path(recorded: str) -> str:
    """Decode the percent-escapes of a recorded path, once, as UTF-8.

    Raises:
        InvalidTableError: An escape is invalid (rule delta L38).
    """
    if "\x00" in recorded or "%00" in recorded:
        raise _path_error(recorded, "it holds a NUL character")
    if "%" not in recorded:
        return recorded
    if _BAD_ESCAPE.search(recorded) is not None:
        raise _path_error(recorded, "a percent sign is not followed by two hexadecimal digits")
    try:
        return unquote_to_bytes(recorded).decode("utf-8")
    except UnicodeError:
        raise _path_error(recorded, "its escapes are not UTF-8") from None


def path_keys(recorded: pa.Array, root: TableRoot) -> pa.Array:
    """Return the replay keys of recorded paths, a string array without nulls.

    Raises:
        InvalidTableError, UnsupportedError: As for `TableRoot.canonical`.
    """
    if _all_plain(recorded):
        return recorded
    intricate = pc.match_substring_regex(recorded, _NEEDS_RESOLVING)
    if not pc.any(intricate).as_py():
        return recorded
    folders: dict[str, str] = {}

    def canonical(path: str) -> str:
        folder, slash, name = path.rpartition("/")
        if slash == "" or "%" in name or "\x00" in name or name in ("", ".", ".."):
            return root.canonical(path)
        if folder not in folders:
            folders[folder] = root.canonical(folder + "/x")[:-1]
        return folders[folder] + name

    resolved = array_of([canonical(path) for path in recorded.filter(intricate).to_pylist()], pa.string())
    within = pc.starts_with(resolved, root.prefix)
    rest = pc.utf8_slice_codeunits(resolved, len(root.prefix))
    short = pc.and_(within, pc.invert(pc.match_substring_regex(rest, _NEEDS_RESOLVING)))
    return pc.replace_with_mask(recorded, intricate, pc.if_else(short, rest, resolved))


def canonical_paths(keys: pa.Array, root: TableRoot) -> pa.Array:
    """Return the canonical paths of replay keys."""
    paths = pc.binary_join_element_wise(scalar_of(root.prefix, pa.string()), keys, scalar_of("", pa.string()))
    if _all_plain(keys):
        return paths
    return pc.if_else(pc.match_substring_regex(keys, _ABSOLUTE), keys, paths)


def _all_plain(paths: pa.Array) -> bool:
    """Return True if a scan of all bytes at once shows that no path needs resolving, else False."""
    if not len(paths):
        return True
    data, offsets = text_bytes(paths)
    if any((data == byte).any() for byte in (_PERCENT, _NUL, _COLON)):
        return False
    first, last = offsets[:-1], offsets[1:] - 1
    if (last < first).any() or _is_slash_or_dot(data[first]).any() or (data[last] == _SLASH).any():
        return False
    return not _is_slash_or_dot(data[1:][data[:-1] == _SLASH]).any()


def _is_slash_or_dot(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = (data == _SLASH) | (data == _DOT)
    return mask


def require_readable(keys: pa.ChunkedArray, root: TableRoot, storage: Storage) -> None:
    """Refuse files in stores that no installed file system can read. The table's own store is not checked.

    Raises:
        UnsupportedError: No installed file system can read the store of a file (rule delta L41).
    """
    own_scheme = _SCHEME.match(root.path)
    foreign = pa.chunked_array([_with_scheme(chunk) for chunk in keys.chunks], pa.string())
    if own_scheme is not None:
        foreign = foreign.filter(pc.invert(pc.starts_with(foreign, own_scheme.group() + "://")))
    prefixes = pc.replace_substring_regex(foreign, pattern=r"(?s)^([A-Za-z0-9+.-]*:(?://)?).*", replacement=r"\1")
    for scheme in pc.unique(prefixes).to_pylist():
        example = foreign.filter(pc.starts_with(foreign, scheme))[0].as_py()
        served = scheme.endswith("://")  # without the slashes, `storage` would treat it as a local path
        try:
            storage.client(example)
        except (RequestError, OSError):  # OSError: pyarrow's Hadoop client cannot find Java
            served = False
        if not served:
            message = f"Cannot read files in {scheme}: no file system for it is installed. Install one, or map the path"
            raise UnsupportedError(message, file=example, rule="delta L41")


def _with_scheme(keys: pa.Array) -> pa.Array:
    if not (text_bytes(keys)[0] == _COLON).any():
        return keys.slice(0, 0)
    with_scheme = keys.filter(pc.match_substring_regex(keys, _BEGINS_WITH_SCHEME))
    return (
        with_scheme.filter(pc.invert(pc.match_substring_regex(with_scheme, "^[A-Za-z]:/")))
        if os.name == "nt"
        else with_scheme
    )


def _normalize_local(path: str) -> str:
    normal = posixpath.normpath(path)
    return normal[1:] if normal.startswith("//") else normal


def _normalize_remote(uri: str) -> str:
    """Resolve `.` and `..` in a URI. Empty segments stay, because they are part of the names of objects."""
    if _DOTS.search(uri) is None:
        return uri
    base = _BASE.match(uri)
    start = base.end() if base is not None else uri.index(":") + 1
    segments: list[str] = []
    for segment in uri[start:].split("/"):
        if segment == "..":
            del segments[max(1, len(segments) - 1) :]  # keep the first segment, which precedes the first slash
        elif segment != ".":
            segments.append(segment)
    return uri[:start] + "/".join(segments)


def _path_error(recorded: str, reason: str) -> InvalidTableError:
    message = f"Cannot decode path {recorded!r}: {reason}. Paths in the log are percent-encoded"
    return InvalidTableError(message, cause="LogCorrupt", rule="delta L38")
