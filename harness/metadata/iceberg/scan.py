"""Plans a read of an Iceberg snapshot: manifests to a `ScanPlan` (iceberg sections 2 to 5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError
from harness.metadata.filters.predicate import Filter, fields_of, filter_for, opposite
from harness.metadata.filters.skipping import ColumnBounds
from harness.metadata.filters.sqltext import bind_columns
from harness.metadata.iceberg.columns.entries import DataFiles, FilteredFiles, Skip
from harness.metadata.iceberg.columns.raw import KeptManifests
from harness.metadata.iceberg.columns.reading import read_data_files, read_entries
from harness.metadata.iceberg.file_list import list_files
from harness.metadata.iceberg.manifests import (
    ManifestEntry,
    ManifestFile,
    ManifestReader,
    open_manifest,
    parse_manifest_list,
)
from harness.metadata.iceberg.model import Snapshot
from harness.metadata.iceberg.name_mapping import PROPERTY as NAME_MAPPING
from harness.metadata.iceberg.name_mapping import parse_name_mapping
from harness.metadata.iceberg.skipping import bounds_of, projected
from harness.metadata.iceberg.time_travel import IcebergSelection
from harness.metadata.iceberg.values import all_partition_fields, read_schema_first
from harness.metadata.model.arrow_values import distinct, to_numpy
from harness.metadata.model.schema import METADATA, Field, Schema, StructType, UnknownType
from harness.metadata.plan.read_options import Prune
from harness.metadata.plan.scan_plan import KEPT, Counts, IcebergRules, trusted_of_files
from harness.metadata.planned_scan import PlannedScan, within_roots
from harness.storage.limits import contained
from harness.storage.records import dataclass

if TYPE_CHECKING:
    from harness.metadata.iceberg.summaries import ManifestFilter
    from harness.metadata.iceberg.table import IcebergTable


def plan_scan(
    source: IcebergTable, selection: IcebergSelection, *, columns: tuple[str, ...] | None, where: str | Filter | None
) -> PlannedScan:
    """The plan of a read.

    Args:
        columns: names in the order wanted; None: all columns of the schema.
        where: a boolean SQL expression, or a filter for the schema of `selection`; None: all rows.

    Raises:
        RequestError: a column is unknown, or `where` cannot be parsed or is for another schema.
        InvalidTableError, MissingFileError, UnsupportedError, EncryptedTableError: as the message says; it names the
            table, the snapshot and the file.
        OutsideTableError, StorageError: a file may not be read, or its storage fails.
    """
    snapshot = selection.snapshot
    source = replace(source, storage=source.storage.for_read())
    try:
        manifests = [] if snapshot is None else manifests_of(source, snapshot)
        scan = _Scan(with_specs_of(manifests, source), selection.schema, source.kept_manifests)
        return within_roots(scan.plan(snapshot, manifests, columns, where))
    except HarnessError as error:
        error.within(table=source.location, snapshot=None if snapshot is None else snapshot.id)
        raise


def manifests_of(source: IcebergTable, snapshot: Snapshot) -> list[ManifestFile]:
    """The snapshot's manifests in order; v1 snapshots may list their paths inline (iceberg 1.26, 1.27)."""
    if snapshot.manifest_list is not None:
        data = source.read(snapshot.manifest_list, "manifest list")
        with contained(file=snapshot.manifest_list):
            return list(parse_manifest_list(data, file=snapshot.manifest_list, limits=source.storage.limits))
    return [ManifestFile(path=path, added_snapshot_id=snapshot.id) for path in snapshot.manifests or ()]


def with_specs_of(manifests: Iterable[ManifestFile], source: IcebergTable) -> IcebergTable:
    """The source with the specs that the metadata lacks, from the headers of manifests (iceberg 2.22).

    Partition values are constants and scopes of deletes; without their spec they would be lost.
    """
    specs = source.metadata.specs
    unsure = [m for m in manifests if m.spec_id not in specs]
    limits = source.storage.limits
    with source.reading(unsure) as read:
        found = [open_manifest(read(m), m, specs=specs, schemas=(), limits=limits).spec for m in unsure]
    if not found:
        return source
    added = {spec.id: spec for spec in found}
    return replace(source, metadata=replace(source.metadata, specs={**added, **specs}))


@dataclass(frozen=True, slots=True)
class _Scan:
    source: IcebergTable
    schema: Schema
    kept: KeptManifests | None

    def plan(
        self,
        snapshot: Snapshot | None,
        manifests: list[ManifestFile],
        columns: tuple[str, ...] | None,
        where: str | Filter | None,
    ) -> PlannedScan:
        metadata = self.source.metadata
        chosen = self.schema.fields if columns is None else bind_columns(columns, self.schema)
        condition = None
        if where is not None:
            parsed = filter_for(where, self.schema)
            condition = replace(parsed, columns=tuple(map(self._typed, parsed.columns)))
        deletes = self._delete_entries([m for m in manifests if m.is_deletes])
        keys = frozenset(id_ for entry in deletes for id_ in entry.file.equality_ids or ())
        data = [m for m in manifests if not m.is_deletes]
        statistics = keys | (fields_of(condition.predicate) if condition is not None else frozenset())
        opened = self.open(data, condition, statistics)
        files = list_files(opened.files, deletes, source=self.source, schema=self.schema, kept=self.kept)
        mapping = metadata.properties.get(NAME_MAPPING)
        return PlannedScan(
            table=self.source.location,
            snapshot=None if snapshot is None else snapshot.id,
            schema=self.schema,
            columns=tuple(self._typed(f) for f in chosen),
            filter=condition,
            rules=IcebergRules(
                location=metadata.location,
                path_map=self.source.path_map,
                name_mapping=None if mapping is None else parse_name_mapping(mapping, file=metadata.file),
            ),
            files=files.files,
            partitions=files.partitions,
            equality_deletes=files.equality_deletes,
            delete_sets=files.delete_sets,
            position_deletes=files.position_deletes,
            skipped=files.skipped,
            counts=Counts(
                manifests=len(data),
                manifests_skipped=len(data) - opened.manifests,
                files=files.files.num_rows + len(files.skipped),
            ),
            warnings=opened.warnings,
            trusted=(*opened.trusted, *trusted_of_files(files.skipped, condition)),
            guarded=opened.guarded,
            storage=self.source.storage,
            statistics=_Statistics(self, opened.files.files, data, condition),
        )

    def _delete_entries(self, manifests: list[ManifestFile]) -> tuple[ManifestEntry, ...]:
        """Every live delete file of the snapshot, with all its statistics."""
        schemas = read_schema_first(self.source.metadata.schemas, self.schema)
        specs, limits = self.source.metadata.specs, self.source.storage.limits

        def opened(manifest: ManifestFile) -> ManifestReader:
            data = read(manifest)
            with contained(file=manifest.path):
                return open_manifest(data, manifest, specs=specs, schemas=schemas, limits=limits)

        with self.source.reading(manifests) as read:
            return tuple(read_entries(map(opened, manifests)))

    def open(self, manifests: Sequence[ManifestFile], condition: Filter | None, statistics: frozenset[int]) -> _Opened:
        """The live data files, without manifests that trusted summaries of partitions exclude (iceberg 3.9).

        No manifest is skipped by its counts, against iceberg 3.5: a wrong count would drop rows. Where one is skipped,
        a tuple outside of another's summary makes all manifests be read after all.
        """
        if condition is None or self.source.options.prune is not Prune.ALL:
            return _Opened(self._data_files(manifests, statistics, condition), len(manifests))
        filters = self._manifest_filters(manifests, condition)
        kept = np.ones(len(manifests), dtype=np.bool_)
        for spec_id, manifest_filter in filters.items():
            places = [place for place, manifest in enumerate(manifests) if manifest.spec_id == spec_id]
            kept[places] = manifest_filter.may_hold([manifests[place] for place in places])
        chosen = [manifests[place] for place in np.flatnonzero(kept).tolist()]
        files = self._data_files(chosen, statistics, condition)
        guarded = tuple(dict.fromkeys(sentence for each in filters.values() for sentence in each.guarded()))
        if len(chosen) == len(manifests):
            return _Opened(files, len(manifests), guarded=guarded)
        wrong = _contradicted(chosen, files, filters)
        if wrong is None:
            trusted = tuple(t for f in filters.values() for t in f.trusted())
            return _Opened(files, len(chosen), trusted=trusted, guarded=guarded)
        warning = f"Partition summaries of manifest {wrong.path} are wrong: no manifest is skipped [iceberg 3.9]"
        return _Opened(self._data_files(manifests, statistics, condition), len(manifests), (warning,))

    def _manifest_filters(
        self, manifests: Iterable[ManifestFile], condition: Filter
    ) -> Mapping[int | None, ManifestFilter]:
        """The filter on manifests of each spec that they have."""
        from harness.metadata.iceberg.summaries import ManifestFilter

        metadata = self.source.metadata
        summaries: dict[int | None, Mapping[str, str]] = {s.id: s.summary for s in metadata.snapshots.values()}
        used = {m.spec_id for m in manifests}
        return {
            spec.id: ManifestFilter(
                spec,
                projected(condition.predicate, spec, self.schema),
                self.schema,
                lambda manifest: summaries.get(manifest.added_snapshot_id),
            )
            for spec in metadata.specs.values()
            if spec.id in used and spec.fields  # of others there are no summaries
        }

    def _data_files(
        self, manifests: Sequence[ManifestFile], statistics: frozenset[int], condition: Filter | None
    ) -> FilteredFiles:
        kept = self.kept

        def known(manifest: ManifestFile) -> bool:
            return kept is not None and kept.get(manifest.path, tuple(sorted(statistics))) is not None

        with self.source.reading(manifests, unless=known) as read:
            return read_data_files(
                manifests,
                read=read,
                specs=self.source.metadata.specs,
                schemas=read_schema_first(self.source.metadata.schemas, self.schema),
                statistics=statistics,
                skip=None if condition is None else self.skip(condition),
                limits=self.source.storage.limits,
                kept=kept,
            )

    def skip(self, condition: Filter) -> Skip | None:
        """The verdicts of a filter on files; None: it drops none."""
        if self.source.options.prune is Prune.OFF:
            return None
        from harness.metadata.iceberg.skipping import skip_files

        return partial(
            skip_files,
            specs=self.source.metadata.specs,
            schema=self.schema,
            condition=condition,
            by_statistics=self.source.options.prune.by_statistics,
        )

    def _typed(self, column: Field) -> Field:
        """`_partition` as a struct of the fields of all the table's specs; null if there are none (iceberg 5.17)."""
        if column.id != METADATA["_partition"].id:
            return column
        metadata = self.source.metadata
        fields = all_partition_fields(metadata, read_schema_first(metadata.schemas, self.schema))
        return replace(column, type=StructType(fields) if fields else UnknownType())


@dataclass(frozen=True, slots=True)
class _Opened:
    """The live files of the data manifests that were not skipped, and how many manifests these are."""

    files: FilteredFiles
    manifests: int
    warnings: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()


def _contradicted(
    manifests: Sequence[ManifestFile], filtered: FilteredFiles, filters: Mapping[int | None, ManifestFilter]
) -> ManifestFile | None:
    """The first manifest with a partition tuple outside of its summaries."""
    tables = (filtered.files.table, filtered.skipped.table)
    tuples, numbers = (np.concatenate([to_numpy(t.column(c)) for t in tables]) for c in ("tuple", "manifest"))
    pairs = distinct(tuples.astype(np.int64) * len(manifests) + numbers)
    at, owner = np.divmod(pairs, len(manifests))
    outside = np.zeros(len(pairs), dtype=np.bool_)
    specs = np.array([manifest.spec_id for manifest in manifests], dtype=object)
    for spec_id, manifest_filter in filters.items():
        places = np.flatnonzero(specs[owner] == spec_id)
        own = [filtered.files.tuples[place] for place in at[places].tolist()]
        outside[places] = manifest_filter.contradicted(manifests, owner[places], own)
    return manifests[owner[outside][0]] if outside.any() else None


@dataclass(frozen=True, slots=True)
class _Statistics:
    """The statistics of the planned files."""

    scan: _Scan
    files: DataFiles
    manifests: Sequence[ManifestFile]
    condition: Filter | None

    def kept_whole(self) -> npt.NDArray[np.bool_]:
        skip = None if self.condition is None else self.scan.skip(opposite(self.condition))
        return np.zeros(len(self.files), dtype=np.bool_) if skip is None else skip(self.files) != KEPT

    def bounds(self, columns: Sequence[Field]) -> Mapping[int, ColumnBounds]:
        """Return the manifests' bounds of columns in these files, which were planned from them.

        The manifests are read once more: a plan keeps the statistics of the columns of its own filter alone.
        """
        if not self.scan.source.options.prune.by_statistics:
            return {}
        wanted = frozenset(f.id for f in columns)
        wanted |= frozenset() if self.condition is None else fields_of(self.condition.predicate)
        try:
            again = self.scan.open(self.manifests, self.condition, wanted).files.files
        except HarnessError:  # whatever they were once read as, nothing need be known
            return {}
        if not again.table.column("path").equals(self.files.table.column("path")):
            return {}
        return {f.id: bounds_of(again, f) for f in columns if f.id in again.fields}
