"""The deletes of a plan: which rows of data files are gone, and where that is recorded.

A plan names every source of deleted rows, with all that is needed to read it. `harness.metadata.deletes.loading` reads
deleted positions; engines read equality deletes as they read data files.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import CorruptDeleteError, untrusted_table_error, warn
from harness.metadata.model.arrow_values import array_of, empty_table
from harness.metadata.model.schema import Field, StructType
from harness.storage.paths import PathMap, PhysicalPath, RecordedPath, local_path, redact, slashed
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualityDelete:
    """An equality delete file: rows in its scope that equal a row of the file in all keys are deleted.

    path, physical, format: as in `FILES`.
    keys: per key its top-level column, in ascending order of the key's field id. A key inside a struct is the only
        field that the struct has here. Types are the newest ones; ids identify columns, names do not.
    sequence_number: hits data files with a smaller data sequence number.
    partition: index into `ScanPlan.partitions`; None: the delete hits all partitions.
    record_count: rows, None if unknown.
    """

    path: str
    physical: PhysicalPath
    format: str
    keys: tuple[Field, ...]
    sequence_number: int
    partition: int | None
    record_count: int | None = None


def key_fields(root: Field) -> tuple[Field, ...]:
    """Return the fields from the top-level column of a key down to the key."""
    match root.type:
        case StructType(fields=(below,)):
            return (root, *key_fields(below))
        case _:
            return (root,)


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionDeleteFile:
    """A position delete file of Iceberg: its rows are paths of data files and positions in them.

    path, physical, format: as in `FILES`.
    sequence_number, partition: its data sequence number, and the index of its partition tuple in `ScanPlan.partitions`.
        They tell whether a row may name a data file (iceberg 4.4).
    target: recorded path of the only data file that it is for; None: it may name several.
    record_count: rows, None if unknown.
    """

    path: str
    physical: PhysicalPath
    format: str
    sequence_number: int
    partition: int
    target: str | None = None
    record_count: int | None = None

    @property
    def kind(self) -> str:
        """The kind of delete, in words."""
        return "position delete file"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVector:
    """A deletion vector in a file.

    path, physical: of the file that holds the vector, as in `FILES`.
    format: of that file: `puffin`, or `bin` for a file of deletion vectors of Delta.
    offset, length: its place in the file, in bytes. In a `bin` file, length leaves out the vector's own length and
        checksum.
    record_count: deleted positions in it, None if not recorded.
    """

    path: str
    physical: PhysicalPath
    format: Literal["puffin", "bin"]
    offset: int
    length: int
    record_count: int | None

    @property
    def kind(self) -> str:
        """The kind of delete, in words."""
        return "deletion vector"


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineVector:
    """A deletion vector in Delta's log.

    text: the vector in Z85 (delta D4). length: its bytes, decoded. record_count: deleted positions in it.
    """

    text: str
    length: int
    record_count: int

    @property
    def kind(self) -> str:
        """The kind of delete, in words."""
        return "deletion vector"

    @property
    def path(self) -> str:
        """The word that stands for the path of a file in reports."""
        return "inline"


Vector: TypeAlias = StoredVector | InlineVector
PositionDelete: TypeAlias = PositionDeleteFile | StoredVector | InlineVector


@dataclass(frozen=True, slots=True)
class PositionFiles:
    """Position delete files of one data file, or of several with the same ones.

    applied: indexes into `PositionDeletes.files`, by sequence number; the files' rows may name other data files only.
    suspects: indexes of files that must not name the data file, which only reading them shows (iceberg 4.4).
    """

    applied: tuple[int, ...]
    suspects: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows of a file in a change data feed: all that did not change are deleted positions (delta C6).

    hidden: rows that did not change; None: no row is hidden.
    shown: the only rows that changed, less the hidden ones.
    """

    hidden: Vector | None
    shown: Vector


PositionSource: TypeAlias = StoredVector | InlineVector | PositionFiles | ChangedRows
"""Where the deleted positions of a data file are recorded."""

VECTORS = pa.schema(
    [
        pa.field("format", pa.string(), nullable=False),  # puffin, bin, inline
        pa.field("path", pa.string(), nullable=False),  # recorded path of the file; of an inline vector its text
        pa.field("physical", pa.string()),  # where the bytes are; null: inline
        pa.field("offset", pa.int64()),  # null: inline
        pa.field("length", pa.int64(), nullable=False),
        pa.field("record_count", pa.int64()),  # null: not recorded
    ]
)
"""Columns of `PositionDeletes.vectors`: the members of `StoredVector` and `InlineVector`."""
_NO_VECTORS = empty_table(VECTORS)


@dataclass(frozen=True, slots=True)
class PositionDeletes:
    """All sources of deleted positions of a plan.

    files: position delete files. sets: sources of several vectors or files.
    vectors: `VECTORS`, deletion vectors of one data file each: a plan may have hundreds of thousands.

    `FILES.positions` counts the rows of `vectors` first, and then `sets`.
    """

    files: tuple[PositionDeleteFile, ...] = ()
    vectors: pa.Table = field(default_factory=lambda: _NO_VECTORS, hash=False)
    sets: tuple[PositionFiles | ChangedRows, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.vectors.num_rows or self.sets)

    def source(self, index: int) -> PositionSource:
        """Return the source of a file's deleted positions; `index` is that in `FILES.positions`."""
        count = self.vectors.num_rows
        return self.sets[index - count] if index >= count else _vector(self.vectors.slice(index, 1).to_pylist()[0])

    def sources(self, indexes: list[int | None]) -> Iterator[PositionSource | None]:
        """Yield the source of each file, None for a file without deleted positions."""
        count = self.vectors.num_rows
        wanted = [index for index in indexes if index is not None and index < count]
        rows = iter(self.vectors.take(array_of(wanted, pa.int64())).to_pylist() if wanted else ())
        for index in indexes:
            yield None if index is None else self.sets[index - count] if index >= count else _vector(next(rows))

    def hits(self, indexes: list[int | None]) -> list[tuple[PositionDelete, tuple[int, ...]]]:
        """Return every delete file and vector that may hit a data file, with the ordinals of these data files.

        Args:
            indexes: `FILES.positions` of the data files.
        """
        found: dict[tuple[str, int], tuple[PositionDelete, list[int]]] = {}
        for ordinal, (index, source) in enumerate(zip(indexes, self.sources(indexes), strict=True)):
            match source:
                case None:
                    members: dict[tuple[str, int], PositionDelete] = {}
                case PositionFiles(applied=applied):
                    members = {("file", place): self.files[place] for place in applied}
                case ChangedRows(hidden=hidden, shown=shown):
                    members = {} if hidden is None else {("hidden", ordinal): hidden}
                    members["shown", ordinal] = shown
                case _:
                    assert index is not None
                    members = {("vector", index): source}
            for key, delete in members.items():
                found.setdefault(key, (delete, []))[1].append(ordinal)
        return [(delete, tuple(ordinals)) for delete, ordinals in found.values()]


def _vector(row: dict[str, Any]) -> Vector:
    if row["format"] == "inline":
        return InlineVector(text=row["path"], length=row["length"], record_count=row["record_count"])
    return StoredVector(**row)


def vectors_table(vectors: list[Vector]) -> pa.Table:
    """Return vectors as `VECTORS`."""
    columns: dict[str, list[Any]] = {
        "format": [v.format if isinstance(v, StoredVector) else "inline" for v in vectors],
        "path": [v.path if isinstance(v, StoredVector) else v.text for v in vectors],
        "physical": [v.physical if isinstance(v, StoredVector) else None for v in vectors],
        "offset": [v.offset if isinstance(v, StoredVector) else None for v in vectors],
        "length": [v.length for v in vectors],
        "record_count": [v.record_count for v in vectors],
    }
    return pa.Table.from_arrays([array_of(columns[f.name], f.type) for f in VECTORS], schema=VECTORS)


# The data files that position deletes name: other spellings of a path, and partitions that differ.

FILE_PATH_ID = 2147483546
"""Reserved field id of the data file's path in a position delete file (iceberg 4.11)."""
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")


@dataclass(frozen=True, slots=True)
class PathSpellings:
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

    def equivalent_path(self, path: RecordedPath, live: Container[str]) -> RecordedPath | None:
        """The only live data file that the caller's path map equates with `path`, which is no live data file."""
        physical = self.path_map.physical(path) if self.path_map.explicit_count else path
        if not any(_is_below(path, old) for old, _ in self.path_map.prefixes[: self.path_map.explicit_count]):
            return None
        heads = [(old.rstrip("/"), new.rstrip("/")) for old, new in self.path_map.prefixes]
        others = {physical, *(old + physical[len(new) :] for old, new in heads if _is_below(physical, new))}
        known = [RecordedPath(other) for other in others if other in live]
        found = [other for other in known if self.path_map.physical(other) == physical]
        return found[0] if len(found) == 1 else None

    def similar_paths(self, paths: Iterable[str], authorities: Iterable[str]) -> dict[str, str]:
        """The paths of deletes, by a name of a data file that differs from them by scheme or authority alone.

        authorities: of the data files.
        """
        known = tuple(authorities)
        found: dict[str, str] = {}
        for path in paths:
            authority = authority_of(path)
            found |= {other + path[len(authority) :]: path for other in known if other != authority}
        return found

    def warn_of(self, delete: str, path: str, data: str) -> None:
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
            raise untrusted_table_error(sentence, self.table)
        warn(f"Table {redact(self.table)}: {sentence}")


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
