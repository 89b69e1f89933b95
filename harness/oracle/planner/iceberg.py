"""Plans a read of an Iceberg table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from harness.errors import InvalidTableError, UnknownColumnError
from harness.filters.column_binding import bind_columns
from harness.filters.parse import parse_filter
from harness.filters.predicate import Filter
from harness.model.metadata_columns import METADATA
from harness.model.schema import Field, Schema, StructType, UnknownType
from harness.oracle.planner.documents import needed, optional, parse_json
from harness.oracle.planner.iceberg_deletes import Applying, applying, check_data, check_deletes, key_columns
from harness.oracle.planner.iceberg_location import current_metadata, path_map
from harness.oracle.planner.iceberg_manifests import DATA, Files, LiveFile, live_files
from harness.oracle.planner.iceberg_metadata import Metadata, read_metadata, read_with, select
from harness.oracle.planner.iceberg_partitions import Partitions, partition_fields
from harness.oracle.planner.iceberg_positions import Positions
from harness.oracle.planner.request import Request
from harness.plan.projection import MappedName, NameMapping
from harness.plan.scan_plan import FILES, Counts, EqualityDelete, PositionDelete, ScanPlan
from harness.storage.stores import Storage


def plan_iceberg(request: Request, storage: Storage) -> ScanPlan:
    """The plan of a read, with all live data files in it.

    Raises:
        HarnessError: as `harness.oracle.planner.plan_unpruned`.
    """
    path = current_metadata(request.location, storage)
    storage = storage.around(request.location, path)
    metadata = read_metadata(storage.read(path), file=path)
    snapshot, schema = select(
        metadata, snapshot_id=request.snapshot_id, timestamp_ms=request.timestamp_ms, ref=request.ref
    )
    metadata = read_with(metadata, schema)
    columns = schema.fields if request.columns is None else bind_columns(request.columns, schema)
    condition = None if request.where is None else _condition(request.where, schema, metadata)
    _refuse_delta_columns((*columns, *(condition.columns if condition is not None else ())))
    files = Files(storage, path_map(metadata, storage, request.path_map))
    live = () if snapshot is None else live_files(metadata, snapshot, files)
    deletes = tuple(file for file in live if file.content != DATA)
    check_deletes(deletes, metadata)
    check_data(live)
    targets = [(file, applying(file, deletes)) for file in live if file.content == DATA]
    partitions = Partitions(metadata)
    scopes = _Scopes.of(targets, metadata, partitions)
    return ScanPlan(
        table=request.location,
        format="iceberg",
        snapshot=None if snapshot is None else snapshot.id,
        schema=schema,
        columns=tuple(_typed(f, metadata) for f in columns),
        filter=condition,
        files=_files(targets, scopes, partitions),
        partitions=tuple(partitions.tuples),
        equality_deletes=scopes.deletes,
        delete_sets=scopes.scopes,
        position_deletes=_position_deletes(targets),
        load_positions=Positions(targets, files, request.location).load,
        name_mapping=_name_mapping(metadata),
        skipped=(),
        counts=Counts(files=len(targets)),
        storage=storage,
    )


@dataclass(frozen=True, slots=True)
class _Scopes:
    """The equality deletes that hit some file, and the sets of them that files have."""

    deletes: tuple[EqualityDelete, ...]
    scopes: tuple[tuple[int, ...], ...]
    by_file: tuple[int, ...]

    @staticmethod
    def of(targets: Sequence[tuple[LiveFile, Applying]], metadata: Metadata, partitions: Partitions) -> _Scopes:
        hitting = list({id(d): d for _, deletes in targets for d in deletes.equality}.values())
        place = {id(delete): number for number, delete in enumerate(hitting)}
        sets = [tuple(sorted(place[id(d)] for d in deletes.equality)) for _, deletes in targets]
        distinct = list(dict.fromkeys(sets))
        return _Scopes(
            tuple(_equality_delete(delete, metadata, partitions) for delete in hitting),
            tuple(distinct),
            tuple(distinct.index(scope) for scope in sets),
        )


def _equality_delete(delete: LiveFile, metadata: Metadata, partitions: Partitions) -> EqualityDelete:
    keys, paths = key_columns(delete, metadata)
    return EqualityDelete(
        path=delete.path,
        physical=delete.physical,
        format=delete.format,
        keys=keys,
        key_paths=paths,
        sequence_number=delete.sequence_number,
        partition=None if delete.spec.is_unpartitioned else partitions.number(delete.spec, delete.partition),
        record_count=delete.record_count,
    )


def _files(targets: Sequence[tuple[LiveFile, Applying]], scopes: _Scopes, partitions: Partitions) -> pa.Table:
    rows = [
        {
            "path": file.path,
            "physical": file.physical,
            "format": file.format,
            "record_count": file.record_count,
            "size": file.size,
            "spec_id": file.spec.id,
            "partition": partitions.number(file.spec, file.partition),
            "sequence_number": file.sequence_number,
            "first_row_id": file.first_row_id,
            "delete_set": scope,
            "has_positions": deletes.vector is not None or bool(deletes.positions or deletes.foreign),
        }
        for (file, deletes), scope in zip(targets, scopes.by_file, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=FILES)


def _position_deletes(targets: Sequence[tuple[LiveFile, Applying]]) -> tuple[PositionDelete, ...]:
    hit: dict[int, tuple[LiveFile, list[int]]] = {}
    for ordinal, (_, deletes) in enumerate(targets):
        for source in (deletes.vector,) if deletes.vector is not None else deletes.positions:
            hit.setdefault(id(source), (source, []))[1].append(ordinal)
    return tuple(
        PositionDelete(
            kind="deletion vector" if source.format == "puffin" else "position delete file",
            path=source.path,
            offset=source.offset,
            length=source.length,
            record_count=source.record_count,
            files=tuple(ordinals),
        )
        for source, ordinals in hit.values()
    )


def _condition(where: str, schema: Schema, metadata: Metadata) -> Filter:
    parsed = parse_filter(where, schema)
    return replace(parsed, columns=tuple(_typed(f, metadata) for f in parsed.columns))


def _typed(column: Field, metadata: Metadata) -> Field:
    """`_partition` gets the struct that this table gives it (iceberg 5.17)."""
    if column.id != METADATA["_partition"].id:
        return column
    fields = partition_fields(metadata)
    return replace(column, type=StructType(fields) if fields else UnknownType())


def _refuse_delta_columns(used: tuple[Field, ...]) -> None:
    if METADATA["_row_commit_version"] in used:
        raise UnknownColumnError("Only Delta tables have _row_commit_version", field="_row_commit_version")


def _name_mapping(metadata: Metadata) -> NameMapping | None:
    """The property's mapping (iceberg 5.7)."""
    text = metadata.properties.get("schema.name-mapping.default")
    if text is None:
        return None
    value = parse_json(text, file=metadata.file)
    if not isinstance(value, list):
        raise InvalidTableError("The name mapping is no list", file=metadata.file, rule="iceberg 5.7")
    return NameMapping(_mapped(value, metadata.file, set()))


def _mapped(level: list[object], file: str, ids: set[int]) -> tuple[MappedName, ...]:
    entries, seen = [], set[str]()
    for item in level:
        entry = needed({"entry": item}, "entry", dict, file=file)
        names = optional(entry, "names", list, file=file) or []
        field_id = optional(entry, "field-id", int, file=file)
        if seen & set(names) or len(set(names)) < len(names) or field_id in ids:
            raise InvalidTableError(f"The name mapping repeats {names} or {field_id}", file=file, rule="iceberg 5.7")
        seen |= set(names)
        ids |= set() if field_id is None else {field_id}
        fields = _mapped(optional(entry, "fields", list, file=file) or [], file, ids)
        entries.append(MappedName(names=tuple(names), field_id=field_id, fields=fields))
    return tuple(entries)
