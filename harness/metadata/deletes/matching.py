"""The data files that position deletes name: other spellings of a path, and partitions that differ.

Light: planning needs it, and reads no delete file.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import CorruptDeleteError, distrusted, warn
from harness.storage.paths import PathMap, RecordedPath, local_path, shown, slashed
from harness.storage.records import dataclass

FILE_PATH_ID = 2147483546
"""Reserved field id of the data file's path in a position delete file (iceberg 4.11)."""
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")


@dataclass(frozen=True, slots=True)
class Spellings:
    """Paths in deletes that are not the text of a data file's path, and so name none (iceberg 1.14).

    Some writers give a data file `/wh/t/f` in the manifest, and `hdfs://host:port/wh/t/f` in the delete. The caller
    says that both are one file with a `path_map` that leads both to one place; nothing else joins them.

    location: the table's, as its metadata says. table: as the caller says, for messages.
    untrusted: whether a doubt is an error.
    """

    path_map: PathMap
    location: RecordedPath
    table: str
    untrusted: bool

    def joined(self, path: RecordedPath, live: Container[str]) -> RecordedPath | None:
        """The only live data file that the caller's path map equates with `path`, which is no live data file."""
        physical = self.path_map.physical(path) if self.path_map.said else path
        if not any(_is_below(path, old) for old, _ in self.path_map.prefixes[: self.path_map.said]):
            return None
        heads = [(old.rstrip("/"), new.rstrip("/")) for old, new in self.path_map.prefixes]
        others = {physical, *(old + physical[len(new) :] for old, new in heads if _is_below(physical, new))}
        known = [RecordedPath(other) for other in others if other in live]
        found = [other for other in known if self.path_map.physical(other) == physical]
        return found[0] if len(found) == 1 else None

    def alike(self, paths: Iterable[str], authorities: Iterable[str]) -> dict[str, str]:
        """The paths of deletes, by a name of a data file that differs from them by scheme or authority alone.

        authorities: of the data files.
        """
        known = tuple(authorities)
        found: dict[str, str] = {}
        for path in paths:
            authority = authority_of(path)
            found |= {other + path[len(authority) :]: path for other in known if other != authority}
        return found

    def tell(self, delete: str, path: str, data: str) -> None:
        """Warns of a delete file that hits no data file, but for the scheme or authority of a path in it.

        Raises InvalidTableError: the table is untrusted.
        """
        below = self.location.rstrip("/")[len(authority_of(self.location)) :]
        folder, target = authority_of(path) + below, authority_of(data) + below
        if not below or not path.startswith(folder + "/") or not data.startswith(target + "/"):
            folder, target = directory_of(path), directory_of(data)
        sentence = (
            f"Position delete file {delete} deletes no row: it names {path}, and the data file is {data}, another path "
            f"by its scheme or authority (iceberg 1.14). If both are one file, say path_map={{{folder!r}: "
            f"{self.path_map.physical(RecordedPath(target))!r}}}"
        )
        if self.untrusted:
            raise distrusted(sentence, self.table)
        warn(f"Table {shown(self.table)}: {sentence}")


def authority_of(path: str) -> str:
    """The scheme and authority that a path begins with; empty: it has none."""
    match = _AUTHORITY.match(path)
    return "" if match is None else match[0]


def authorities(paths: pa.ChunkedArray) -> frozenset[str]:
    """The schemes and authorities of many paths, which mostly have one."""
    if not len(paths):
        return frozenset()
    first = authority_of(paths[0].as_py())
    if pc.all(pc.starts_with(paths, first + "/")).as_py():
        return frozenset([first])
    return frozenset(map(authority_of, paths.to_pylist()))


def _is_below(path: str, prefix: str) -> bool:
    plain = prefix.rstrip("/")
    return bool(plain) and path.startswith(plain + "/")


def directory_of(path: str) -> str:
    """Return the directory of a recorded path, without the scheme of a local file."""
    plain = slashed(local_path(path))
    return plain.rsplit("/", 1)[0] if "/" in plain else "."


def partition_mismatch(
    delete: tuple[str, int, Mapping[int, Any]], data: tuple[str, int, Mapping[int, Any]], rule: str
) -> CorruptDeleteError:
    """Return the error for a delete that names a data file of another partition.

    Args:
        delete, data: Recorded path, spec id and partition tuple of the delete file and of the data file.
        rule: The rule that forbids it.
    """
    path, spec, values = delete
    return CorruptDeleteError(
        f"Delete of spec {spec} and partition {dict(values)} names data file {data[0]} of spec {data[1]} and partition"
        f" {dict(data[2])}. Rewrite the delete, or apply it by path with lenient_delete_partition=True",
        cause="DeletePartitionMismatch",
        file=path,
        rule=rule,
        options=("lenient_delete_partition",),
    )
