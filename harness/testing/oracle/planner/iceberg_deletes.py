"""Which deletes of an Iceberg snapshot apply to which of its data files (iceberg 4.1 to 4.23)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.errors import CorruptDeleteError, InvalidTableError, UnsupportedError
from harness.metadata.model.schema import Field, FloatType, StructType, children
from harness.testing.oracle.planner.iceberg_manifests import DATA, EQUALITY_DELETES, LiveFile
from harness.testing.oracle.planner.iceberg_metadata import Metadata
from harness.testing.oracle.planner.iceberg_partitions import partition_key


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
    """Holds every delete file of the snapshot against a data file.

    Raises:
        CorruptDeleteError: a delete names the file and contradicts its partition or sequence number (iceberg 4.3, 4.4).
    """
    equality = tuple(d for d in deletes if d.content == EQUALITY_DELETES and _hits(d, data))
    for vector in (d for d in deletes if d.format == "puffin" and d.referenced == data.path):
        if vector.sequence_number < data.sequence_number or not _same_partition(vector, data):
            raise _mismatch(vector, data, "iceberg 4.3")
        return Applying(vector, (), (), equality)
    positions: list[LiveFile] = []
    foreign: list[LiveFile] = []
    for delete in deletes:
        if delete.content == EQUALITY_DELETES or delete.format == "puffin":
            continue
        if delete.sequence_number < data.sequence_number or delete.referenced not in (None, data.path):
            continue
        if _same_partition(delete, data):
            positions.append(delete)
        elif delete.referenced is not None:
            raise _mismatch(delete, data, "iceberg 4.4")
        else:
            foreign.append(delete)
    return Applying(None, tuple(positions), tuple(foreign), equality)


def check_deletes(deletes: Sequence[LiveFile], metadata: Metadata) -> None:
    """Checks the entries of the delete files by themselves.

    Raises:
        InvalidTableError: a v1 table has deletes (iceberg 4.16).
        CorruptDeleteError: an entry lacks what its kind needs (4.17, 4.23), or two vectors are of one file (4.21).
    """
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
    """Checks that no data file is live twice.

    Raises:
        InvalidTableError: one is (iceberg 2.13).
    """
    manifests: dict[str, str] = {}
    for file in (f for f in files if f.content == DATA):
        if file.path in manifests:
            message = f"A data file is live twice, in {manifests[file.path]} and {file.manifest}"
            raise InvalidTableError(message, cause="DuplicateDataFile", file=file.path, rule="iceberg 2.13")
        manifests[file.path] = file.manifest


def mismatch(delete: LiveFile, data: LiveFile) -> CorruptDeleteError:
    """The error for rows of a delete file that name a data file which it may not hit (iceberg 4.4)."""
    return _mismatch(delete, data, "iceberg 4.4")


def key_columns(delete: LiveFile, metadata: Metadata) -> tuple[tuple[Field, ...], tuple[tuple[int, ...], ...]]:
    """Per key of an equality delete file, by ascending id: its column, reduced to the key, and the ids that lead to it.

    A column counts in the newest schema that has it, since dropped or renamed (iceberg 4.23, 4.28).

    Raises:
        InvalidTableError: no schema has it, or it is no single value of a row.
        UnsupportedError: a float, which the format forbids.
    """
    columns, paths = [], []
    for key in sorted(set(delete.equality_ids)):
        column, path = _key_column(key, delete, metadata)
        columns.append(column)
        paths.append(path)
    return tuple(columns), tuple(paths)


def _hits(delete: LiveFile, data: LiveFile) -> bool:
    """iceberg 4.6."""
    is_global = delete.spec.is_unpartitioned
    return data.sequence_number < delete.sequence_number and (is_global or _same_partition(delete, data))


def _same_partition(one: LiveFile, other: LiveFile) -> bool:
    return partition_key(one.spec, one.partition) == partition_key(other.spec, other.partition)


def _mismatch(delete: LiveFile, data: LiveFile, rule: str) -> CorruptDeleteError:
    return CorruptDeleteError(
        f"A delete of spec {delete.spec.id}, partition {dict(delete.partition)} and sequence number "
        f"{delete.sequence_number} names data file {data.path} of spec {data.spec.id}, partition "
        f"{dict(data.partition)} and sequence number {data.sequence_number}",
        cause="DeletePartitionMismatch",
        file=delete.path,
        rule=rule,
    )


def _key_column(key: int, delete: LiveFile, metadata: Metadata) -> tuple[Field, tuple[int, ...]]:
    for schema in metadata.schemas.values():
        trails = [trail for field in schema.fields for trail in _trails(field) if trail[-1].id == key]
        if trails:
            return _reduced(trails[0], delete, is_current=schema is metadata.current_schema)
    raise _unknown(f"no schema has field id {key}", delete)


def _trails(field: Field) -> Iterator[tuple[Field, ...]]:
    yield (field,)
    for child in children(field.type):
        yield from ((field, *trail) for trail in _trails(child))


def _reduced(trail: tuple[Field, ...], delete: LiveFile, *, is_current: bool) -> tuple[Field, tuple[int, ...]]:
    *parents, key = trail
    if children(key.type) or not all(isinstance(parent.type, StructType) for parent in parents):
        raise _unknown(f"field {key.id} is no single value of a row", delete)
    if isinstance(key.type, FloatType):
        message = f"Cannot apply an equality delete by {key.name!r} of type {key.type}"
        raise UnsupportedError(message, cause="UnknownEqualityField", file=delete.path, rule="iceberg 4.23")
    column = key if is_current else replace(key, required=False)
    for parent in reversed(parents):
        required = parent.required and is_current
        column = replace(parent, type=StructType((column,)), required=required)
    return column, tuple(field.id for field in trail)


def _unknown(reason: str, delete: LiveFile) -> InvalidTableError:
    message = f"Cannot apply an equality delete: {reason}"
    return InvalidTableError(message, cause="UnknownEqualityField", file=delete.path, rule="iceberg 4.23")
