"""Paths as text: local or not, recorded and physical.

A *recorded* path is the string in the metadata. It is a file's identity: deletes match it, `_file` shows it, and it
is never normalised (iceberg 1.14). The *physical* path is where the bytes are now: a plain local path, or a URI that
fsspec opens. They differ when a table was copied (iceberg 1.11); `PathMap` turns the one into the other. Each has a
type: what opens bytes takes a `PhysicalPath`, so the type checker refuses a recorded path there.
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
"""A path as the metadata has it: the identity of a file, never normalized."""
PhysicalPath = NewType("PhysicalPath", str)
"""A path at which bytes are: a local path, or a URI that a store opens."""

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=://)")
"""The scheme of a URI with an authority, at the start of a path."""
_LOCAL = re.compile(r"(?:file:(?://(?:localhost)?(?=/))?)?(?:(?:\./+)+(?=.))?", re.IGNORECASE | re.DOTALL)
_SLASH_BEFORE_DRIVE = re.compile(r"/(?=[A-Za-z]:(?:[/\\]|$))")


@overload
def local_path(path: PhysicalPath) -> PhysicalPath: ...


@overload
def local_path(path: str) -> str: ...


def local_path(path: str) -> str:
    """`path` without the prefix of a local URI: `file:/x`, `file:///x` and `/x` are one file, and so are `./x` and `x`.

    On Windows `file:/C:/x` is `C:/x`. No percent-decoding.
    """
    plain = path if path.startswith("/") else _LOCAL.sub("", path, count=1)
    return plain[1:] if os.name == "nt" and _SLASH_BEFORE_DRIVE.match(plain) else plain


def slashed(path: str) -> str:
    """A local path of Windows with the slashes that all paths are cut at; every other path as it is."""
    return path.replace("\\", "/") if os.name == "nt" and is_local(path) else path


def is_local(path: str) -> bool:
    """True for a physical path on the local file system."""
    return path.startswith("/") or SCHEME.match(local_path(path)) is None


def redact(location: str) -> str:
    """A location without what may be secret: a user with a password before the host, a signature after `?`."""
    match = SCHEME.match(location)
    if match is None:
        return location
    location = PASSWORD.sub("", location)
    authority, slash, path = location[match.end() + len("://") :].partition("/")
    user, _, host = authority.rpartition("@")
    # `abfss://container@account` names a container.
    return f"{match[0]}://{host if ':' in user else authority}{slash}{path.partition('?')[0]}"


def is_path(text: str) -> bool:
    """Return whether a user's text is spelled as a path or URI, such as `./orders`, `..` or `file:orders`."""
    return bool({"/", "\\", ":"} & set(text)) or ("." in text and not all(text.split(".")))


_SECRET_NAME = re.compile(r"key|secret|token|password|credential|signature|connection.string", re.IGNORECASE)


def secret_texts(options: Mapping[str, object]) -> tuple[str, ...]:
    """Return the texts of options, nested ones too, whose names are those of credentials."""
    texts: list[str] = []
    for name, value in options.items():
        if isinstance(value, Mapping):
            texts += secret_texts(value)
        elif isinstance(value, str) and _SECRET_NAME.search(name):
            # `credential` of a REST catalog is `ID:SECRET`.
            texts += [value, value.partition(":")[2]]
    return tuple(sorted(filter(None, texts), key=len, reverse=True))


def may_be_name(location: str) -> bool:
    """Return whether text may be a table's name in a catalog: parts with dots between, and no path that exists."""
    return "." in location and not is_path(location) and not os.path.exists(location)


def expanded(path: str) -> str:
    """Return a user's path with the home directory in place of a leading `~`. A path that exists stays as it is."""
    return os.path.expanduser(path) if path.startswith("~") and not os.path.lexists(path) else path


def absolute(path: str, base: str) -> str:
    """`path`, physical, as one that no later change of the process's directory moves.

    base: the local directory, absolute, at which relative paths start. What is absolute, or a URI, comes as it is.
    """
    if path.startswith("/"):  # nearly always, and this is asked of every file of a table
        return path
    plain = local_path(path)
    return path if not is_local(plain) or os.path.isabs(plain) else os.path.join(base, plain)


@overload
def join(directory: PhysicalPath, *names: str) -> PhysicalPath: ...


@overload
def join(directory: str, *names: str) -> str: ...


def join(directory: str, *names: str) -> str:
    """`directory`/names…, with exactly one slash between the parts."""
    return "/".join((directory.rstrip("/"), *names))


def both_paths(recorded: str, physical: str) -> str:
    """Return how messages name a file: the recorded path, then the physical path in parentheses if it is another."""
    return recorded if recorded == physical else f"{recorded} ({physical})"


@dataclass(frozen=True, slots=True)
class PathMap:
    """Prefix replacements from recorded to physical paths (iceberg 1.12).

    prefixes: (recorded, physical) pairs, of which the first wins that matches, at the boundary of a path's component.
    said: how many of the first prefixes the caller gave; the others follow from the table's own move.
    base: where relative paths start: the process's directory when the table was opened, as rows are read elsewhere.
    """

    prefixes: tuple[tuple[str, str], ...] = ()
    explicit_count: int = 0
    base: str = field(default_factory=os.getcwd)

    def physical(self, recorded: RecordedPath) -> PhysicalPath:
        """The physical path of a recorded one; never a relative path."""
        plain = slashed(local_path(recorded))
        for old, new in self.prefixes:
            prefix = slashed(local_path(old)).rstrip("/")
            if not prefix:  # the root, or nothing, is a prefix of everything: that would be no mapping but a guess
                continue
            if plain == prefix or plain.startswith(prefix + "/"):
                return PhysicalPath(absolute(new.rstrip("/") + plain[len(prefix) :], self.base))
        return PhysicalPath(absolute(plain, self.base))


# The canonical form of a path, in which it can be compared: which store it is in, and where there.
#
# One file has many spellings: `s3a://b/t/x` and `s3://b/./t/x`, `file:/t/x` and `/t//x`, `C:\t` and `file:///c:/T`.


# Names of one store under several clients.
_STORE_ALIASES = {"s3a": "s3", "s3n": "s3", "gs": "gcs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs"}
# An account of Azure has an endpoint for each protocol: `a.dfs.core.windows.net` and `a.blob.core.windows.net`.
_ENDPOINT = re.compile(r"(?<=@)([^.@]+)\.(?:dfs|blob)\.")
# Stores whose servers or clients decode escapes in a path. In the names of objects and local files they mean nothing.
_DECODING = ("http://", "https://", "webhdfs://")
_DEVICE = re.compile(r"//[?.]/(unc/)?")
_DRIVE = re.compile(r"/*([a-z]:)(?=/|$)")
_MAX_DECODINGS = 4
_SEPARATORS = re.compile(r"[/\\]")


@dataclass(frozen=True, slots=True)
class CanonicalPath:
    """The target of a path in canonical form.

    store: `file`, `file://HOST` for a share of another host, or scheme, host and bucket: `s3://bucket`.
    path: in the store; begins with a slash, has no `.` and `..`, and no slash at its end. The root is empty.
    """

    store: str
    path: str

    def is_within(self, root: CanonicalPath) -> bool:
        """True for `root` and all below it."""
        inside = not root.path or self.path == root.path or self.path.startswith(root.path + "/")
        return inside and self.store == root.store


def canonical_path(path: str, *, windows: bool = os.name == "nt") -> CanonicalPath:
    """The canonical form of an absolute path, as it is spelled: no escape in it is decoded, no link resolved.

    windows: whether local paths are those of Windows.
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
    """Every place that `path` may lead to: as it is spelled and, in stores that decode escapes, as it decodes."""
    literal = canonical_path(path)
    if "%" not in path or not literal.store.startswith(_DECODING):
        return (literal,)
    return literal, canonical_path(_decoded(path))


def climbs(recorded: str) -> bool:
    """True for a path with a segment `..`, however often it is encoded."""
    if ".." not in recorded and "%" not in recorded:
        return False
    return ".." in _SEPARATORS.split(_decoded(recorded))


def _local(path: str, *, windows: bool) -> CanonicalPath:
    store = "file"
    if windows:
        path = _DEVICE.sub(lambda match: "//" if match[1] else "/", path, count=1)
        path = _DRIVE.sub(r"/\1", path, count=1)
    if path.startswith("//") and not path.startswith("///"):  # //host/share, which `file://host/share` becomes
        host, _, path = path[2:].partition("/")
        store = f"file://{host}"
    return CanonicalPath(store, posixpath.normpath("/" + path.lstrip("/")).rstrip("/"))


def _normal(path: str) -> str:
    """`path`, in a bucket, without `.` and `..`; empty segments stay, they are part of an object's name."""
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment != ".":
            segments.append(segment)
    return ("/" + "/".join(segments)).rstrip("/")


def _decoded(path: str) -> str:
    """`path` as whoever decodes its escapes most often reads it: `%252e` is a dot to one who does it twice."""
    for _ in range(_MAX_DECODINGS):
        path = unquote(path)
    return path
