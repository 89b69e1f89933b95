"""The canonical form of a path, in which it can be compared: which store it is in, and where there.

One file has many spellings: `s3a://b/t/x` and `s3://b/./t/x`, `file:/t/x` and `/t//x`, `C:\\t` and `file:///c:/T`. A
prefix of text is not a directory either: `/lake/orders-evil` begins with `/lake/orders`. Nothing here asks a file
system: links are resolved where a `Place` is made of a local path (`harness.storage.roots`).
"""

from __future__ import annotations

import os
import posixpath
import re
from urllib.parse import unquote

from harness.records import dataclass
from harness.storage.paths import SCHEME, local_path

# Names of one store under several clients.
_ONE_STORE = {"s3a": "s3", "s3n": "s3", "gs": "gcs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs"}
# An account of Azure has an endpoint for each protocol: `a.dfs.core.windows.net` and `a.blob.core.windows.net`.
_ENDPOINT = re.compile(r"(?<=@)([^.@]+)\.(?:dfs|blob)\.")
# Stores whose servers or clients decode escapes in a path. In the names of objects and local files they mean nothing.
_DECODING = ("http://", "https://", "webhdfs://")
_DEVICE = re.compile(r"//[?.]/(unc/)?")
_DRIVE = re.compile(r"/*([a-z]:)(?=/|$)")
_MOST_DECODED = 4
_SEPARATORS = re.compile(r"[/\\]")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path leads.

    store: `file`, `file://HOST` for a share of another host, or scheme, host and bucket: `s3://bucket`.
    path: in the store; begins with a slash, has no `.` and `..`, and no slash at its end. The root is empty.
    """

    store: str
    path: str

    def is_within(self, root: Place) -> bool:
        """Whether it is `root`, or below it."""
        inside = not root.path or self.path == root.path or self.path.startswith(root.path + "/")
        return inside and self.store == root.store


def place(path: str, *, windows: bool = os.name == "nt") -> Place:
    """The canonical form of an absolute path, as it is spelled: no escape in it is decoded, no link resolved.

    windows: whether local paths are those of Windows: backslashes separate, drives and shares begin them, and case does
        not matter.
    """
    plain = local_path(path)
    match = SCHEME.match(plain)
    if match is None:
        return _local(plain.replace("\\", "/").lower() if windows else plain, windows=windows)
    scheme = match[0].lower()
    kind = _ONE_STORE.get(scheme, scheme)
    authority, _, rest = plain[match.end() + len("://") :].partition("/")
    if kind == "abfs":
        authority = _ENDPOINT.sub(r"\1.", authority)
    return Place(f"{kind}://{authority}", _normal(rest))


def places(path: str) -> tuple[Place, ...]:
    """Every place that `path` may lead to: as it is spelled and, in stores that decode escapes, as it decodes."""
    literal = place(path)
    if "%" not in path or not literal.store.startswith(_DECODING):
        return (literal,)
    return literal, place(_decoded(path))


def climbs(recorded: str) -> bool:
    """Whether a path goes up somewhere, in whatever spelling: by a segment `..`, however often it is encoded."""
    if ".." not in recorded and "%" not in recorded:
        return False
    return ".." in _SEPARATORS.split(_decoded(recorded))


def _local(path: str, *, windows: bool) -> Place:
    store = "file"
    if windows:
        path = _DEVICE.sub(lambda found: "//" if found[1] else "/", path, count=1)
        path = _DRIVE.sub(r"/\1", path, count=1)
    if path.startswith("//") and not path.startswith("///"):  # //host/share, which `file://host/share` becomes
        host, _, path = path[2:].partition("/")
        store = f"file://{host}"
    return Place(store, posixpath.normpath("/" + path.lstrip("/")).rstrip("/"))


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
    for _ in range(_MOST_DECODED):
        path = unquote(path)
    return path
