"""The deletes of an Iceberg snapshot: which apply to a data file, and deleted positions (iceberg 4.1 to 4.23)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from harness.errors import (
    CorruptDeleteError,
    CorruptFileError,
    InvalidTableError,
    UnsupportedError,
)
from harness.testing.oracle.bitmaps import puffin_vector
from harness.testing.oracle.files import position_deletes
from harness.testing.oracle.iceberg_manifests import DATA, EQUALITY_DELETES, LiveFile, TableFiles, partition_key
from harness.testing.oracle.iceberg_metadata import MetadataValues
from harness.testing.oracle.types import Field, FloatType, StructType, children


@dataclass(frozen=True, slots=True)
class Applying:
    """The deletes of one data file.

    vector: its deletion vector, beside which no position delete file counts (iceberg 4.5).
    positions: position delete files that apply to it, where their rows name it.
    foreign: position delete files that do not apply, and so may not name it (iceberg 4.4).
    equality: equality delete files.
    """

    vector: LiveFile | None
    positions: tuple[LiveFile, ...]
    foreign: tuple[LiveFile, ...]
    equality: tuple[LiveFile, ...]


def applying(data: LiveFile, deletes: Sequence[LiveFile]) -> Applying:
    """Holds every delete file of the snapshot against a data file (iceberg 4.3, 4.4)."""
    equality = tuple(
        d
        for d in deletes
        if d.content == EQUALITY_DELETES
        and data.sequence_number < d.sequence_number
        and (d.spec.is_unpartitioned or partition_key(d) == partition_key(data))  # iceberg 4.6
    )
    for vector in (d for d in deletes if d.format == "puffin" and d.referenced == data.path):
        if vector.sequence_number < data.sequence_number or partition_key(vector) != partition_key(data):
            raise _mismatch(vector, data, "iceberg 4.3")
        return Applying(vector, (), (), equality)
    positions: list[LiveFile] = []
    foreign: list[LiveFile] = []
    for delete in deletes:
        if delete.content == EQUALITY_DELETES or delete.format == "puffin":
            continue
        if delete.sequence_number < data.sequence_number or delete.referenced not in (None, data.path):
            continue
        if partition_key(delete) == partition_key(data):
            positions.append(delete)
        elif delete.referenced is not None:
            raise _mismatch(delete, data, "iceberg 4.4")
        else:
            foreign.append(delete)
    return Applying(None, tuple(positions), tuple(foreign), equality)


def check_deletes(deletes: Sequence[LiveFile], metadata: MetadataValues) -> None:
    """Checks the entries of the delete files by themselves (iceberg 4.16, 4.17, 4.21, 4.23)."""
    vectors: set[str] = set()
    for delete in deletes:
        if metadata.version < 2:
            raise InvalidTableError("A v1 table has deletes", cause="UnexpectedDeletes", rule="iceberg 4.16")
        if delete.content == EQUALITY_DELETES and not delete.equality_ids:
            message = "An equality delete file has no equality ids"
            raise CorruptDeleteError(message, cause="CorruptManifest", file=delete.path, rule="iceberg 4.23")
        if delete.format != "puffin":
            continue
        if None in (delete.referenced, delete.offset, delete.length) or metadata.version < 3:
            message = "The entry of a deletion vector is incomplete, or its table older than v3"
            raise CorruptDeleteError(message, cause="CorruptDeletionVector", file=delete.path, rule="iceberg 4.17")
        if delete.referenced in vectors:
            message = f"Data file {delete.referenced} has two deletion vectors"
            raise CorruptDeleteError(message, cause="MultipleDVs", file=delete.path, rule="iceberg 4.21")
        vectors.add(str(delete.referenced))


def check_data(files: Sequence[LiveFile]) -> None:
    """Raises InvalidTableError for a data file that is live twice (iceberg 2.13)."""
    manifests: dict[str, str] = {}
    for file in (f for f in files if f.content == DATA):
        if file.path in manifests:
            message = f"A data file is live twice, in {manifests[file.path]} and {file.manifest}"
            raise InvalidTableError(message, cause="DuplicateDataFile", file=file.path, rule="iceberg 2.13")
        manifests[file.path] = file.manifest


def key_columns(delete: LiveFile, metadata: MetadataValues) -> tuple[tuple[Field, ...], tuple[tuple[int, ...], ...]]:
    """The keys of an equality delete file by ascending id: the column reduced to the key, and the ids on the way.

    A column counts in the newest schema that has it, since dropped or renamed (iceberg 4.23, 4.28).
    """
    found = [_key_column(key, delete, metadata) for key in sorted(set(delete.equality_ids))]
    return tuple(column for column, _ in found), tuple(path for _, path in found)


def _mismatch(delete: LiveFile, data: LiveFile, rule: str) -> CorruptDeleteError:
    return CorruptDeleteError(
        f"A delete of spec {delete.spec.id}, partition {dict(delete.partition)} and sequence number "
        f"{delete.sequence_number} names data file {data.path} of spec {data.spec.id}, partition "
        f"{dict(data.partition)} and sequence number {data.sequence_number}",
        cause="DeletePartitionMismatch",
        file=delete.path,
        rule=rule,
    )


def _key_column(key: int, delete: LiveFile, metadata: MetadataValues) -> tuple[Field, tuple[int, ...]]:
    schemas = metadata.schemas.values()
    found = (
        (schema, trail) for schema in schemas for f in schema.fields for trail in _trails(f) if trail[-1].id == key
    )
    schema, trail = next(found, (None, ()))
    if schema is None:
        raise _unknown(f"no schema has field id {key}", delete)
    *parents, field = trail
    if children(field.type) or not all(isinstance(parent.type, StructType) for parent in parents):
        raise _unknown(f"field {key} is no single value of a row", delete)
    if isinstance(field.type, FloatType):
        message = f"Cannot apply an equality delete by {field.name!r} of type {field.type}"
        raise UnsupportedError(message, cause="UnknownEqualityField", file=delete.path, rule="iceberg 4.23")
    is_current = schema is metadata.current_schema
    column = field if is_current else replace(field, required=False)
    for parent in reversed(parents):
        column = replace(parent, type=StructType((column,)), required=parent.required and is_current)
    return column, tuple(f.id for f in trail)


def _trails(field: Field) -> Iterator[tuple[Field, ...]]:
    yield (field,)
    for child in children(field.type):
        yield from ((field, *trail) for trail in _trails(child))


def _unknown(reason: str, delete: LiveFile) -> InvalidTableError:
    message = f"Cannot apply an equality delete: {reason}"
    return InvalidTableError(message, cause="UnknownEqualityField", file=delete.path, rule="iceberg 4.23")


@dataclass(frozen=True)
class Positions:
    """The deleted positions of a snapshot's data files. read: the rows of position delete files so far."""

    targets: Sequence[tuple[LiveFile, Applying]]
    files: TableFiles
    read: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    def of(self, data: LiveFile, deletes: Applying) -> set[int]:
        """The deleted positions of a data file."""
        if deletes.vector is not None:
            return _vector(deletes.vector, data, self.files)
        for delete in deletes.foreign:
            if any(path == data.path for path, _ in self._rows(delete)):
                raise _mismatch(delete, data, "iceberg 4.4")
        rows = [row for delete in deletes.positions for row in self._rows(delete)]
        return {position for path, position in rows if path == data.path}

    def _rows(self, delete: LiveFile) -> list[tuple[str, int]]:
        if delete.path not in self.read:
            rows = position_deletes(delete, self.files.files)
            # A file for one data file may not name another that it would hit (iceberg 4.4).
            named = set() if delete.referenced is None else {path for path, _ in rows} - {delete.referenced}
            for data, deletes in self.targets:
                if data.path in named and deletes.vector is None and delete.sequence_number >= data.sequence_number:
                    raise _mismatch(delete, data, "iceberg 4.4")
            self.read[delete.path] = rows
        return self.read[delete.path]


def _vector(vector: LiveFile, data: LiveFile, files: TableFiles) -> set[int]:
    """A deletion vector (iceberg 4.17 to 4.20)."""
    length, offset, puffin = vector.length or 0, vector.offset or 0, files.read(vector.path)
    if puffin[:4] != b"PFA1" or puffin[-4:] != b"PFA1":
        message = "Cannot read deletion vector: its file is no Puffin file"
        raise CorruptFileError(message, cause="CorruptDeletionVector", file=vector.path, rule="iceberg 4.22")
    blob = puffin[offset : offset + length]
    try:
        if len(blob) != length:
            raise ValueError(f"{len(blob)} of {length} bytes")
        positions = puffin_vector(blob)
        if len(positions) != vector.record_count:
            raise ValueError(f"{len(positions)} positions, its entry says {vector.record_count}")
        if positions and data.record_count is not None and max(positions) >= data.record_count:
            raise ValueError(f"position {max(positions)} of {data.record_count} rows")
    except ValueError as error:
        message = f"Cannot read deletion vector: {error}"
        raise CorruptDeleteError(
            message, cause="CorruptDeletionVector", file=vector.path, rule="iceberg 4.18"
        ) from error
    return positions
