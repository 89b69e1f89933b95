"""The deletes of a plan: which rows of data files are deleted, and the sources that record it.

A plan describes every source of deleted rows completely, so that it can be read from the plan alone.
`harness.metadata.deletes.loading` reads deleted positions; engines read equality deletes like data files.
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
from harness.metadata.plan.lifetimes import Span
from harness.storage.paths import PathMap, PhysicalPath, RecordedPath, local_path, redact, slashed
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualityDelete:
    """An equality delete file. It deletes the rows in its scope that equal one of its rows in all keys.

    Attributes:
        path: As in `FILES`.
        physical: As in `FILES`.
        format: As in `FILES`.
        keys: The top-level column of each key, in ascending order of the key's field id. If the key is inside a struct,
            the struct contains only that key. Types are the newest ones. Columns are identified by id, not by name.
        sequence_number: The delete applies to data files with a smaller data sequence number. None in a plan that a
            server made, where only the delete sets decide.
        partition: Index into `ScanPlan.partitions`; None if the delete applies to all partitions.
        record_count: Number of rows, None if unknown.
    """

    path: str
    physical: PhysicalPath
    format: str
    keys: tuple[Field, ...]
    sequence_number: int | None
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

    Attributes:
        path: As in `FILES`.
        physical: As in `FILES`.
        format: As in `FILES`.
        sequence_number: Data sequence number. Together with the partition, it decides which data files the rows may
            list (iceberg 4.4). None in a plan that a server made.
        partition: Index of the partition tuple in `ScanPlan.partitions`.
        target: Recorded path of the only data file that the delete file is for; None if it may list several.
        record_count: Number of rows, None if unknown.
    """

    path: str
    physical: PhysicalPath
    format: str
    sequence_number: int | None
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

    Attributes:
        path: Recorded path of the file that holds the vector.
        physical: Physical path of that file.
        format: `puffin`, or `bin` for a file of deletion vectors of Delta.
        offset: Offset of the vector in the file, in bytes.
        length: Size of the vector in bytes. In a `bin` file, the size excludes the vector's own length and checksum
            fields.
        record_count: Number of deleted positions, None if not recorded.
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

    Attributes:
        text: The vector in Z85 (delta D4).
        length: Number of decoded bytes.
        record_count: Number of deleted positions.
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
        """The text that reports show instead of a path."""
        return "inline"


Vector: TypeAlias = StoredVector | InlineVector
PositionDelete: TypeAlias = PositionDeleteFile | StoredVector | InlineVector


@dataclass(frozen=True, slots=True)
class PositionFiles:
    """The position delete files that apply to one data file, or to several data files that share them.

    Attributes:
        applied: Indexes into `PositionDeletes.files`, by sequence number. A delete file may turn out to have no row for
            the data file.
        suspects: Indexes of delete files that must not list the data file. Only reading these files can prove it
            (iceberg 4.4).
    """

    applied: tuple[int, ...]
    suspects: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """The changed rows of a file in a change data feed. All other rows count as deleted positions (delta C6).

    Attributes:
        hidden: The rows in `shown` that did not change; None if there are none.
        shown: The rows that may have changed.
    """

    hidden: Vector | None
    shown: Vector


@dataclass(frozen=True, slots=True)
class DatedDelete:
    """A position delete of one data file in a plan with lifetimes.

    Attributes:
        source: The vector, or the index of the delete file in `PositionDeletes.files`.
        span: When the delete applied to the data file.
    """

    source: StoredVector | InlineVector | int
    span: Span


@dataclass(frozen=True, slots=True)
class DatedPositions:
    """All position deletes that applied to a data file at any time in the range of a plan with lifetimes.

    Attributes:
        deletes: The deletes in the order of the commits that added them.
        suspects: As in `PositionFiles`.
    """

    deletes: tuple[DatedDelete, ...]
    suspects: tuple[int, ...] = ()


PositionSource: TypeAlias = StoredVector | InlineVector | PositionFiles | ChangedRows | DatedPositions
"""The record of a data file's deleted positions."""

VECTORS = pa.schema(
    [
        pa.field("format", pa.string(), nullable=False),  # puffin, bin, inline
        pa.field("path", pa.string(), nullable=False),  # recorded path of the file; for an inline vector, its text
        pa.field("physical", pa.string()),  # physical path of the file; null: inline
        pa.field("offset", pa.int64()),  # null: inline
        pa.field("length", pa.int64(), nullable=False),
        pa.field("record_count", pa.int64()),  # null: not recorded
    ]
)
"""Columns of `PositionDeletes.vectors`: the attributes of `StoredVector` and `InlineVector`."""
_NO_VECTORS = empty_table(VECTORS)


@dataclass(frozen=True, slots=True)
class PositionDeletes:
    """All sources of deleted positions in a plan.

    `FILES.positions` is an index into the rows of `vectors` followed by the items of `sets`.

    Attributes:
        files: Position delete files.
        vectors: A table of `VECTORS`: deletion vectors of one data file each. A plan may have hundreds of thousands.
        sets: Sources that consist of several vectors or files.
    """

    files: tuple[PositionDeleteFile, ...] = ()
    vectors: pa.Table = field(default_factory=lambda: _NO_VECTORS, hash=False)
    sets: tuple[PositionFiles | ChangedRows | DatedPositions, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.vectors.num_rows or self.sets)

    def source(self, index: int) -> PositionSource:
        """Return the source of a file's deleted positions. `index` is the value of `FILES.positions`."""
        count = self.vectors.num_rows
        return self.sets[index - count] if index >= count else _vector(self.vectors.slice(index, 1).to_pylist()[0])

    def sources(self, indexes: list[int | None]) -> Iterator[PositionSource | None]:
        """Yield the source of each file's deleted positions, or None for a file without deleted positions."""
        count = self.vectors.num_rows
        vector_indexes = [index for index in indexes if index is not None and index < count]
        rows = iter(self.vectors.take(array_of(vector_indexes, pa.int64())).to_pylist() if vector_indexes else ())
        for index in indexes:
            yield None if index is None else self.sets[index - count] if index >= count else _vector(next(rows))

    def vectors_of_sets(self) -> Iterator[StoredVector]:
        """Yield the vectors in `sets` that are in files."""
        for source in self.sets:
            match source:
                case ChangedRows(hidden=hidden_vector, shown=shown_vector):
                    sources: Iterable[object] = (hidden_vector, shown_vector)
                case DatedPositions(deletes=deletes):
                    sources = (each.source for each in deletes)
                case PositionFiles():
                    sources = ()
            yield from (vector for vector in sources if isinstance(vector, StoredVector))

    def hits(self, indexes: list[int | None]) -> list[tuple[PositionDelete, tuple[int, ...]]]:
        """Return every delete file and vector, with the ordinals of the data files to which it may apply.

        Args:
            indexes: `FILES.positions` of the data files.
        """
        hits: dict[tuple[str, int], tuple[PositionDelete, list[int]]] = {}
        for ordinal, (index, source) in enumerate(zip(indexes, self.sources(indexes), strict=True)):
            match source:
                case None:
                    members: dict[tuple[str, int], PositionDelete] = {}
                case PositionFiles(applied=applied):
                    members = {("file", place): self.files[place] for place in applied}
                case ChangedRows(hidden=hidden_vector, shown=shown_vector):
                    members = {} if hidden_vector is None else {("hidden", ordinal): hidden_vector}
                    members["shown", ordinal] = shown_vector
                case DatedPositions(deletes=deletes):
                    members = {
                        ("file", dated.source) if isinstance(dated.source, int) else (f"dated {place}", ordinal): (
                            self.files[dated.source] if isinstance(dated.source, int) else dated.source
                        )
                        for place, dated in enumerate(deletes)
                    }
                case _:
                    assert index is not None
                    members = {("vector", index): source}
            for key, delete in members.items():
                hits.setdefault(key, (delete, []))[1].append(ordinal)
        return [(delete, tuple(ordinals)) for delete, ordinals in hits.values()]


def _vector(row: dict[str, Any]) -> Vector:
    if row["format"] == "inline":
        return InlineVector(text=row["path"], length=row["length"], record_count=row["record_count"])
    return StoredVector(**row)


def vectors_table(vectors: list[Vector]) -> pa.Table:
    """Return vectors as a table of `VECTORS`."""
    columns: dict[str, list[Any]] = {
        "format": [v.format if isinstance(v, StoredVector) else "inline" for v in vectors],
        "path": [v.path if isinstance(v, StoredVector) else v.text for v in vectors],
        "physical": [v.physical if isinstance(v, StoredVector) else None for v in vectors],
        "offset": [v.offset if isinstance(v, StoredVector) else None for v in vectors],
        "length": [v.length for v in vectors],
        "record_count": [v.record_count for v in vectors],
    }
    return pa.Table.from_arrays([array_of(columns[f.name], f.type) for f in VECTORS], schema=VECTORS)


# Position deletes name data files by path. Paths may differ in spelling, and the partitions may contradict each other.

FILE_PATH_ID = 2147483546
"""Reserved field id of the data file's path in a position delete file (iceberg 4.11)."""
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")


@dataclass(frozen=True, slots=True)
class PathSpellings:
    """Paths in deletes that match no data file because they are spelled differently (iceberg 1.14).

    Some writers record a data file as `/wh/t/f` in the manifest and as `hdfs://host:port/wh/t/f` in the delete. A
    caller can declare that both are the same file with a `path_map` that maps both to one physical path. Without a
    `path_map`, they count as different files.

    Attributes:
        path_map: The caller's path map.
        location: The table's location as recorded in its metadata.
        table: The table's location as passed by the caller, for messages.
        untrusted: If True, a suspicious spelling is an error.
    """

    path_map: PathMap
    location: RecordedPath
    table: str
    untrusted: bool

    def equivalent_path(self, path: RecordedPath, live: Container[str]) -> RecordedPath | None:
        """Return the only live data file that the caller's path map equates with `path`, or None.

        `path` must not itself be a live data file.
        """
        physical = self.path_map.physical(path) if self.path_map.explicit_count else path
        if not any(_is_below(path, old) for old, _ in self.path_map.prefixes[: self.path_map.explicit_count]):
            return None
        heads = [(old.rstrip("/"), new.rstrip("/")) for old, new in self.path_map.prefixes]
        spellings = {physical, *(old + physical[len(new) :] for old, new in heads if _is_below(physical, new))}
        live_paths = [RecordedPath(spelling) for spelling in spellings if spelling in live]
        matches = [spelling for spelling in live_paths if self.path_map.physical(spelling) == physical]
        return matches[0] if len(matches) == 1 else None

    def similar_paths(self, paths: Iterable[str], authorities: Iterable[str]) -> dict[str, str]:
        """Return a mapping from similar paths to the paths in deletes, where only the scheme or authority differs.

        Args:
            paths: The paths in deletes.
            authorities: Schemes and authorities of the data files.
        """
        all_authorities = tuple(authorities)
        spellings: dict[str, str] = {}
        for path in paths:
            authority = authority_of(path)
            spellings |= {other + path[len(authority) :]: path for other in all_authorities if other != authority}
        return spellings

    def warn(self, delete: str, path: str, data: str) -> None:
        """Warn about a delete file that deletes no row because a path in it has another scheme or authority.

        Args:
            delete: Recorded path of the delete file.
            path: The path in the delete file.
            data: Recorded path of the data file.

        Raises:
            InvalidTableError: The table is untrusted.
        """
        below = self.location.rstrip("/")[len(authority_of(self.location)) :]
        folder, target = authority_of(path) + below, authority_of(data) + below
        if not below or not path.startswith(folder + "/") or not data.startswith(target + "/"):
            folder, target = directory_of(path), directory_of(data)
        sentence = (
            f"Position delete file {delete} deletes no row: it names {path}, which differs from data file {data} "
            f"only by scheme or authority (iceberg 1.14). If both are the same file, pass path_map={{{folder!r}: "
            f"{self.path_map.physical(RecordedPath(target))!r}}}"
        )
        if self.untrusted:
            raise untrusted_table_error(sentence, self.table)
        warn(f"Table {redact(self.table)}: {sentence}")


def authority_of(path: str) -> str:
    """Return the scheme and authority at the start of a path, or an empty text."""
    match = _AUTHORITY.match(path)
    return "" if match is None else match[0]


def authorities(paths: pa.ChunkedArray) -> frozenset[str]:
    """Return the distinct schemes and authorities of many paths. Usually there is one."""
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
        delete: Recorded path, spec id, and partition tuple of the delete file.
        data: Recorded path, spec id, and partition tuple of the data file.
        rule: The violated rule.
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
