"""Paths as text: local or remote, recorded or physical.

A *recorded* path is the string in the metadata. It identifies a file: deletes match it, `_file` shows it, and it is
never normalized (iceberg 1.14). A *physical* path says where the bytes are now: a plain local path, or a URI that
fsspec can open. The two differ if a table was copied (iceberg 1.11), and `PathMap` turns recorded paths into physical
ones. Each has its own type, so the type checker rejects a recorded path where bytes are opened.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from dataclasses import field
from typing import NewType, overload
from urllib.parse import unquote

from harness.errors import PASSWORD
from harness.storage.records import dataclass

RecordedPath = NewType("RecordedPath", str)
"""A path as recorded in the metadata, which identifies a file. Never normalized."""
PhysicalPath = NewType("PhysicalPath", str)
"""A path where bytes can be read: a local path, or a URI that a store opens."""

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=://)")
"""The scheme at the start of a URI with an authority."""
_LOCAL = re.compile(r"(?:file:(?://(?:localhost)?(?=/))?)?(?:(?:\./+)+(?=.))?", re.IGNORECASE | re.DOTALL)
_SLASH_BEFORE_DRIVE = re.compile(r"/(?=[A-Za-z]:(?:[/\\]|$))")


@overload
def local_path(path: PhysicalPath) -> PhysicalPath: ...


@overload
def local_path(path: str) -> str: ...


def local_path(path: str) -> str:
    """Remove the prefix of a local URI: `file:/x`, `file:///x`, and `/x` are the same file, as are `./x` and `x`.

    On Windows, `file:/C:/x` becomes `C:/x`. Percent escapes are not decoded.
    """
    plain = path if path.startswith("/") else _LOCAL.sub("", path, count=1)
    return plain[1:] if os.name == "nt" and _SLASH_BEFORE_DRIVE.match(plain) else plain


def slashed(path: str) -> str:
    """Return a local Windows path with forward slashes. Other paths are unchanged."""
    return path.replace("\\", "/") if os.name == "nt" and is_local(path) else path


def is_local(path: str) -> bool:
    """Return whether a physical path is on the local file system."""
    return path.startswith("/") or SCHEME.match(local_path(path)) is None


def redact(location: str) -> str:
    """Return a location without possible secrets: a user and password before the host, and a signature after `?`."""
    match = SCHEME.match(location)
    if match is None:
        return location
    location = PASSWORD.sub("", location)
    authority, slash, path = location[match.end() + len("://") :].partition("/")
    user, _, host = authority.rpartition("@")
    # The part before the at sign in `abfss://container@account` is no user.
    return f"{match[0]}://{host if ':' in user else authority}{slash}{path.partition('?')[0]}"


def is_path(text: str) -> bool:
    """Return whether text is spelled as a path or URI, for example `./orders`, `..`, or `file:orders`."""
    return bool({"/", "\\", ":"} & set(text)) or ("." in text and not all(text.split(".")))


_SECRET_NAME = re.compile(r"key|secret|token|password|credential|signature|connection.string", re.IGNORECASE)


def secret_texts(options: Mapping[str, object]) -> tuple[str, ...]:
    """Return the values of all options, including nested options, whose names are names of credentials."""
    texts: list[str] = []
    for name, value in options.items():
        if isinstance(value, Mapping):
            texts += secret_texts(value)
        elif isinstance(value, str) and _SECRET_NAME.search(name):
            # The `credential` of a REST catalog is `ID:SECRET`.
            texts += [value, value.partition(":")[2]]
    return tuple(sorted(filter(None, texts), key=len, reverse=True))


def may_be_name(location: str) -> bool:
    """Return whether text may be a table's name in a catalog: parts separated by dots, and not an existing path."""
    return "." in location and not is_path(location) and not os.path.exists(location)


def expanded(path: str) -> str:
    """Return a path with a leading `~` replaced by the home directory. A path that exists is unchanged."""
    return os.path.expanduser(path) if path.startswith("~") and not os.path.lexists(path) else path


def absolute(path: str, base: str) -> str:
    """Return a physical path in absolute form, so that a later change of the working directory does not matter.

    Args:
        path: The path. Absolute paths and URIs are returned unchanged.
        base: The absolute local directory where relative paths start.
    """
    if path.startswith("/"):  # nearly always true, and this runs for every file of a table
        return path
    plain = local_path(path)
    return path if not is_local(plain) or os.path.isabs(plain) else os.path.join(base, plain)


@overload
def join(directory: PhysicalPath, *names: str) -> PhysicalPath: ...


@overload
def join(directory: str, *names: str) -> str: ...


def join(directory: str, *names: str) -> str:
    """Join a directory and names with exactly one slash between the parts."""
    return "/".join((directory.rstrip("/"), *names))


def both_paths(recorded: str, physical: str) -> str:
    """Return how messages name a file: the recorded path, then the physical path in parentheses if it differs."""
    return recorded if recorded == physical else f"{recorded} ({physical})"


@dataclass(frozen=True, slots=True)
class PathMap:
    """Prefix replacements from recorded to physical paths (iceberg 1.12).

    Attributes:
        prefixes: Pairs of a recorded and a physical prefix. The first pair that matches whole path components applies.
        explicit_count: The number of leading pairs that the caller gave. The remaining pairs are derived from the
            location to which the table was moved.
        base: The directory where relative paths start. It is the working directory when the table was opened, because
            rows may be read in another process.
    """

    prefixes: tuple[tuple[str, str], ...] = ()
    explicit_count: int = 0
    base: str = field(default_factory=os.getcwd)

    def physical(self, recorded: RecordedPath) -> PhysicalPath:
        """Return the physical path of a recorded path. It is never relative."""
        plain = slashed(local_path(recorded))
        for old, new in self.prefixes:
            prefix = slashed(local_path(old)).rstrip("/")
            if not prefix:  # the empty prefix matches every path, so this would be a guess
                continue
            if plain == prefix or plain.startswith(prefix + "/"):
                return PhysicalPath(absolute(new.rstrip("/") + plain[len(prefix) :], self.base))
        return PhysicalPath(absolute(plain, self.base))


# Schemes of one store in different clients.
_STORE_ALIASES = {"s3a": "s3", "s3n": "s3", "gs": "gcs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs"}
# An Azure account has one endpoint per protocol: `a.dfs.core.windows.net` and `a.blob.core.windows.net`.
_ENDPOINT = re.compile(r"(?<=@)([^.@]+)\.(?:dfs|blob)\.")
# Stores whose servers or clients decode percent escapes in a path. In names of objects and local files, escapes have no
# meaning.
_DECODING = ("http://", "https://", "webhdfs://")
_DEVICE = re.compile(r"//[?.]/(unc/)?")
_DRIVE = re.compile(r"/*([a-z]:)(?=/|$)")
_MAX_DECODINGS = 4
_SEPARATORS = re.compile(r"[/\\]")


@dataclass(frozen=True, slots=True)
class CanonicalPath:
    """A path in canonical form, for comparison.

    One file has many spellings, for example `s3a://b/t/x` and `s3://b/./t/x`.

    Attributes:
        store: `file`, `file://HOST` for a share of another host, or scheme, host, and bucket, for example
            `s3://bucket`.
        path: The path in the store. It begins with a slash, has no `.` or `..`, and does not end with a slash. The root
            is empty.
    """

    store: str
    path: str

    def is_within(self, root: CanonicalPath) -> bool:
        """Return whether this path is `root` or below it."""
        inside = not root.path or self.path == root.path or self.path.startswith(root.path + "/")
        return inside and self.store == root.store


def canonical_path(path: str, *, windows: bool = os.name == "nt") -> CanonicalPath:
    """Return the canonical form of an absolute path as spelled, without decoding escapes or resolving links.

    Args:
        path: The path.
        windows: True if local paths follow the rules of Windows.
    """
    plain = local_path(path)
    match = SCHEME.match(plain)
    if match is None:
        return _local(plain.replace("\\", "/").lower() if windows else plain, windows=windows)
    scheme = match[0].lower()
    kind = _STORE_ALIASES.get(scheme, scheme)
    authority, _, rest = plain[match.end() + len("://") :].partition("/")
    if kind == "abfs":
        authority = _ENDPOINT.sub(r"\1.", authority)
    return CanonicalPath(f"{kind}://{authority}", _normal(rest))


def possible_targets(path: str) -> tuple[CanonicalPath, ...]:
    """Return all canonical paths that a path may mean: as spelled and, in stores that decode escapes, as decoded."""
    literal = canonical_path(path)
    if "%" not in path or not literal.store.startswith(_DECODING):
        return (literal,)
    return literal, canonical_path(_decoded(path))


def climbs(recorded: str) -> bool:
    """Return whether a path contains the segment `..`, even if it is percent-encoded several times."""
    if ".." not in recorded and "%" not in recorded:
        return False
    return ".." in _SEPARATORS.split(_decoded(recorded))


def _local(path: str, *, windows: bool) -> CanonicalPath:
    store = "file"
    if windows:
        path = _DEVICE.sub(lambda match: "//" if match[1] else "/", path, count=1)
        path = _DRIVE.sub(r"/\1", path, count=1)
    if path.startswith("//") and not path.startswith("///"):  # `file://host/share` has become //host/share
        host, _, path = path[2:].partition("/")
        store = f"file://{host}"
    return CanonicalPath(store, posixpath.normpath("/" + path.lstrip("/")).rstrip("/"))


def _normal(path: str) -> str:
    """Return a path in a bucket without `.` and `..`.

    Empty segments stay, because they are part of an object's name.
    """
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment != ".":
            segments.append(segment)
    return ("/" + "/".join(segments)).rstrip("/")


def _decoded(path: str) -> str:
    """Return a path with its escapes decoded repeatedly: a reader that decodes twice reads `%252e` as a dot."""
    for _ in range(_MAX_DECODINGS):
        path = unquote(path)
    return path
