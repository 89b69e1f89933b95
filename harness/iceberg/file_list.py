"""The data files of one scan as the columns of a `ScanPlan`, with the deletes that hit each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from harness.errors import CorruptFileError
from harness.filters.predicate import Filter
from harness.iceberg.deletes import DeleteIndex, FileDeletes, live_paths
from harness.iceberg.equality_bounds import may_hit
from harness.iceberg.equality_keys import key_columns, read_schema_first
from harness.iceberg.manifests import DataFile, ManifestEntry
from harness.iceberg.partitions import Partitions
from harness.iceberg.position_deletes import make_loader
from harness.iceberg.pruning import metrics_filter, partition_filter
from harness.iceberg.source import ScanSource
from harness.model.schema import Field, Schema
from harness.plan.pruning import Prune
from harness.plan.scan_plan import FILES, EqualityDelete, Partition, PositionDelete, PositionLoader, SkippedFile

_BOUND_CHECKS = 200_000
"""Comparing key bounds of every delete with every data file is quadratic; beyond this many it is left to the join."""

Reason = Literal["partition", "statistics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileList:
    """The part of a `ScanPlan` that comes from manifest entries; fields as there."""

    files: pa.Table
    partitions: tuple[Partition, ...]
    equality_deletes: tuple[EqualityDelete, ...]
    delete_sets: tuple[tuple[int, ...], ...]
    position_deletes: tuple[PositionDelete, ...]
    load_positions: PositionLoader
    skipped: tuple[SkippedFile, ...]


def list_files(
    data: Iterable[ManifestEntry],
    deletes: tuple[ManifestEntry, ...],
    *,
    source: ScanSource,
    schema: Schema,
    condition: Filter | None,
) -> FileList:
    """The files of a scan.

    Args:
        data: the live data files, in order, with statistics of the filter's columns and of all equality keys.
        deletes: the live delete files, with all statistics.
        source: the table.
        schema: the scan's.
        condition: what files may be skipped by; None: skip none.

    Raises:
        InvalidTableError, CorruptDeleteError, UnsupportedError: as for `DeleteIndex` and `key_columns`.
    """
    metadata, options = source.metadata, source.options
    partitions = Partitions(metadata.specs, read_schema_first(metadata.schemas, schema))
    entries = list(data)
    index = DeleteIndex.build(
        deletes,
        specs=metadata.specs,
        partition_of=partitions.key,
        format_version=metadata.format_version,
        live_paths=live_paths(entries, duplicates="allow" if options.allow_duplicate_files else "refuse"),
        mismatched_partitions="apply" if options.lenient_delete_partition else "refuse",
    )
    skips = _Skips(source, schema, condition, partitions)
    kept: list[FileDeletes] = []
    skipped: list[SkippedFile] = []
    for entry in entries:
        file = entry.file
        reason = skips.reason(file)
        if reason is None:
            kept.append(index.for_data_file(entry))
        else:
            physical = source.path_map.physical(file.path)
            skipped.append(
                SkippedFile(
                    path=file.path, reason=reason, record_count=file.record_count, size=file.size, physical=physical
                )
            )
    scopes = _Scopes(_Keys.of(index, partitions), source, partitions)
    numbers = [scopes.number(deletes) for deletes in kept]
    return FileList(
        files=_table(kept, numbers, source, partitions),
        equality_deletes=scopes.used(),
        delete_sets=scopes.all(),
        partitions=partitions.all(),
        position_deletes=_position_deletes(kept, source),
        load_positions=make_loader(
            dict(enumerate(kept)), storage=source.storage, path_map=source.path_map, table=source.location
        ),
        skipped=tuple(skipped),
    )


@dataclass(frozen=True, slots=True)
class _Skips:
    """Decides which files cannot hold a matching row. Partition tuples are decided once each.

    A record count of 0 decides nothing: counts are wrong in real tables, and opening an empty file costs little. This
    overrules iceberg 2.21, which lets such files be skipped.
    """

    source: ScanSource
    schema: Schema
    condition: Filter | None
    partitions: Partitions
    _by_partition: dict[int, bool] = field(default_factory=dict)
    _tests: dict[int | None, Callable[[DataFile], bool]] = field(default_factory=dict)

    def reason(self, file: DataFile) -> Reason | None:
        if self.condition is None:
            return None
        if not self._partition_may_match(file):
            return "partition"
        if None not in self._tests:
            self._tests[None] = metrics_filter(self.condition.predicate, self.schema)
        return None if self._tests[None](file) else "statistics"

    def _partition_may_match(self, file: DataFile) -> bool:
        spec = self.source.metadata.specs.get(file.spec_id)
        if spec is None or self.condition is None or not spec.fields:
            return True
        index = self.partitions.index(file)
        if index not in self._by_partition:
            if spec.id not in self._tests:
                test = partition_filter(self.condition.predicate, spec, self.schema)
                self._tests[spec.id] = lambda f: test(f.partition)
            self._by_partition[index] = self._tests[spec.id](file)
        return self._by_partition[index]


@dataclass(frozen=True, slots=True)
class _Keys:
    """The equality deletes of the index, with their keys."""

    deletes: tuple[ManifestEntry, ...]
    columns: tuple[tuple[Field, ...], ...]
    paths: tuple[tuple[tuple[int, ...], ...], ...]

    @staticmethod
    def of(index: DeleteIndex, partitions: Partitions) -> _Keys:
        found = [
            key_columns(entry.file.equality_ids or (), partitions.schemas, file=entry.file.path)
            for entry in index.equality_deletes
        ]
        return _Keys(index.equality_deletes, tuple(k for k, _ in found), tuple(p for _, p in found))

    def top_level(self, place: int) -> tuple[Field, ...]:
        columns = zip(self.columns[place], self.paths[place], strict=True)
        return tuple(column for column, path in columns if len(path) == 1)


@dataclass(frozen=True, slots=True)
class _Scopes:
    """The distinct sets of equality deletes that files have, and the deletes in them, numbered as they come."""

    keys: _Keys
    source: ScanSource
    partitions: Partitions
    _numbers: dict[tuple[int, ...], int] = field(default_factory=dict)
    _used: dict[int, int] = field(default_factory=dict)
    _checks: list[int] = field(default_factory=lambda: [0])

    def number(self, deletes: FileDeletes) -> int:
        """The number of the scope of one data file."""
        hits = self._hits(deletes)
        scope = tuple(sorted(self._used.setdefault(place, len(self._used)) for place in hits))
        return self._numbers.setdefault(scope, len(self._numbers))

    def all(self) -> tuple[tuple[int, ...], ...]:
        """Every scope, by number."""
        return tuple(self._numbers)

    def used(self) -> tuple[EqualityDelete, ...]:
        """Every delete in a scope, by the number that scopes call it."""
        return tuple(self._delete(place) for place in self._used)

    def _hits(self, deletes: FileDeletes) -> tuple[int, ...]:
        """The deletes in scope that may hit some row of the data file, by their key bounds (iceberg 4.9)."""
        if self.source.options.prune is Prune.OFF:
            return deletes.equality
        self._checks[0] += len(deletes.equality)
        if self._checks[0] > _BOUND_CHECKS:
            return deletes.equality
        entries = self.keys.deletes
        return tuple(
            place for place in deletes.equality if may_hit(entries[place], deletes.data, self.keys.top_level(place))
        )

    def _delete(self, place: int) -> EqualityDelete:
        entry = self.keys.deletes[place]
        spec = self.source.metadata.specs[entry.file.spec_id]
        return EqualityDelete(
            path=entry.file.path,
            physical=self.source.path_map.physical(entry.file.path),
            format=entry.file.format,
            keys=self.keys.columns[place],
            key_paths=self.keys.paths[place],
            sequence_number=entry.sequence_number,
            partition=None if spec.is_unpartitioned else self.partitions.index(entry.file),
            record_count=entry.file.record_count,
        )


def _table(kept: list[FileDeletes], scopes: list[int], source: ScanSource, partitions: Partitions) -> pa.Table:
    entries = [deletes.data for deletes in kept]
    files = [entry.file for entry in entries]
    columns = {
        "path": [f.path for f in files],
        "physical": [source.path_map.physical(f.path) for f in files],
        "format": [f.format for f in files],
        "record_count": [f.record_count for f in files],
        "size": [f.size for f in files],
        "spec_id": [f.spec_id for f in files],
        "partition": [partitions.index(f) for f in files],
        "sequence_number": [entry.sequence_number for entry in entries],
        "first_row_id": [f.first_row_id for f in files],
        "delete_set": scopes,
        "has_positions": [deletes.has_positions for deletes in kept],
    }
    try:
        return pa.table(columns, schema=FILES)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise CorruptFileError(
            f"Invalid manifest: a number or a text in it is beyond what its type holds: {error}",
            cause="CorruptManifest",
            rule="iceberg 2.7",
        ) from error


def _position_deletes(kept: list[FileDeletes], source: ScanSource) -> tuple[PositionDelete, ...]:
    """The sources of deleted positions with the data files that each may hit, in the order of those."""
    hits: dict[int, tuple[ManifestEntry, list[int]]] = {}
    for ordinal, deletes in enumerate(kept):
        applied = [deletes.vector] if deletes.vector is not None else deletes.position_files
        for entry in applied:
            hits.setdefault(id(entry), (entry, []))[1].append(ordinal)
    return tuple(
        PositionDelete(
            kind="deletion vector" if entry.file.format == "puffin" else "position delete file",
            path=entry.file.path,
            offset=entry.file.content_offset,
            length=entry.file.content_size,
            record_count=entry.file.record_count,
            files=tuple(ordinals),
            physical=source.path_map.physical(entry.file.path),
            format=entry.file.format,
        )
        for entry, ordinals in hits.values()
    )
