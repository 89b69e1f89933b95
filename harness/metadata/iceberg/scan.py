"""Planning of a read of an Iceberg snapshot: from manifests to a `ScanPlan` (iceberg sections 2 to 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import CorruptFileError, HarnessError, InvalidTableError
from harness.metadata.filters.predicate import Filter, fields_of, filter_for, opposite
from harness.metadata.filters.skipping import ColumnBounds
from harness.metadata.filters.sqltext import bind_columns
from harness.metadata.iceberg.columns.entries import DataFiles, Extent, FilteredFiles, Skip, SkippedDataFiles
from harness.metadata.iceberg.columns.reading import Choose, read_data_files, read_entries, read_files
from harness.metadata.iceberg.columns.stored import ManifestCache
from harness.metadata.iceberg.delete_scope import DeleteIndex, DeleteScope, single_targets
from harness.metadata.iceberg.manifests import (
    ManifestEntry,
    ManifestFile,
    ManifestListParser,
    ManifestReader,
    open_manifest,
)
from harness.metadata.iceberg.model import IcebergSnapshot
from harness.metadata.iceberg.planned_deletes import DeleteSets, equality_deletes, key_columns, position_deletes
from harness.metadata.iceberg.skipping import bounds_of, projected
from harness.metadata.iceberg.time_travel import IcebergSelection
from harness.metadata.iceberg.types import NAME_MAPPING, parse_name_mapping
from harness.metadata.iceberg.values import Partitions, all_partition_fields, read_schema_first
from harness.metadata.model.arrow_values import (
    array_of,
    distinct_values,
    first_repeated,
    from_numpy,
    scalar_of,
    to_numpy,
)
from harness.metadata.model.schema import METADATA, Field, Schema, StructType, UnknownType
from harness.metadata.plan.deletes import EqualityDelete, PathSpellings, PositionDeletes, authorities
from harness.metadata.plan.read_options import Prune
from harness.metadata.plan.scan_plan import (
    FILES,
    KEPT,
    Counts,
    IcebergRules,
    Partition,
    SkippedFiles,
    trusted_statistics,
)
from harness.metadata.planned_scan import PlannedScan, within_roots
from harness.storage.gate import is_possible_name
from harness.storage.limits import contained
from harness.storage.paths import PathMap, absolute, is_local, local_path
from harness.storage.records import dataclass
from harness.storage.threads import read_ahead

if TYPE_CHECKING:
    from harness.metadata.iceberg.summaries import ManifestFilter
    from harness.metadata.iceberg.table import IcebergTable


def plan_scan(
    source: IcebergTable, selection: IcebergSelection, *, columns: tuple[str, ...] | None, where: str | Filter | None
) -> PlannedScan:
    """Plan a read.

    Args:
        source: The table.
        selection: The snapshot and the schema to read.
        columns: Column names in the order of the result; None for all columns of the schema.
        where: A boolean SQL expression, or a filter for the schema of `selection`; None for all rows.

    Raises:
        RequestError: A column is unknown, or `where` cannot be parsed or is for another schema.
        InvalidTableError: The metadata breaks the specification. All errors name the table, the snapshot, and the file.
        MissingFileError: A metadata file does not exist.
        UnsupportedError: The table uses a feature that harness does not support.
        EncryptedTableError: A file is encrypted.
        OutsideTableError: A file may not be read.
        StorageError: The storage of a file fails.
    """
    snapshot = selection.snapshot
    source = replace(source, storage=source.storage.for_read())
    try:
        manifests = [] if snapshot is None else manifests_of(source, snapshot)
        scan = IcebergScan(with_specs_of(manifests, source), selection.schema, source.manifest_cache)
        return within_roots(scan.plan(snapshot, manifests, columns, where))
    except HarnessError as error:
        error.within(table=source.location, snapshot=None if snapshot is None else snapshot.id)
        raise


def manifests_of(source: IcebergTable, snapshot: IcebergSnapshot) -> list[ManifestFile]:
    """Return the snapshot's manifests in order. v1 snapshots may list their paths inline (iceberg 1.26, 1.27)."""
    return next(manifests_of_each(source, [snapshot]))


def manifests_of_each(source: IcebergTable, snapshots: Sequence[IcebergSnapshot]) -> Iterator[list[ManifestFile]]:
    """Yield the manifests of each snapshot, as `manifests_of`. In an object store, manifest lists are read ahead."""
    paths = [snapshot.manifest_list for snapshot in snapshots if snapshot.manifest_list is not None]
    waits = any(not is_local(source.path_map.physical(path)) for path in paths[:1])
    parser = ManifestListParser(source.storage.limits)
    with read_ahead(lambda path: source.read(path, "manifest list"), paths if waits else ()) as read:
        for snapshot in snapshots:
            path = snapshot.manifest_list
            if path is None:
                yield [ManifestFile(path=path, added_snapshot_id=snapshot.id) for path in snapshot.manifests or ()]
                continue
            data = read(path)
            with contained(file=path):
                manifests = list(parser.parse(data, file=path))
            yield manifests


def with_specs_of(manifests: Iterable[ManifestFile], source: IcebergTable) -> IcebergTable:
    """Return the table with additional partition specs from manifest headers, if its metadata lacks any (iceberg 2.22).

    Partition values are constants of files and limit the scope of deletes. Without their spec they would be lost.
    """
    specs = source.metadata.specs
    manifests_without_spec = [m for m in manifests if m.spec_id not in specs]
    limits = source.storage.limits
    with source.reading_manifests(manifests_without_spec) as read:
        header_specs = [
            open_manifest(read(m), m, specs=specs, schemas=(), limits=limits).spec for m in manifests_without_spec
        ]
    if not header_specs:
        return source
    added = {spec.id: spec for spec in header_specs}
    return replace(source, metadata=replace(source.metadata, specs={**added, **specs}))


@dataclass(frozen=True, slots=True)
class IcebergScan:
    """A read of a table.

    Attributes:
        source: The table, with the partition specs of all manifests.
        schema: The schema of the rows.
        manifest_cache: As `IcebergTable.manifest_cache`.
    """

    source: IcebergTable
    schema: Schema
    manifest_cache: ManifestCache | None

    def plan(
        self,
        snapshot: IcebergSnapshot | None,
        manifests: list[ManifestFile],
        columns: tuple[str, ...] | None,
        where: str | Filter | None,
    ) -> PlannedScan:
        """Plan a read of one snapshot, given its manifests, as `plan_scan` does."""
        selected = self.schema.fields if columns is None else bind_columns(columns, self.schema)
        condition = None if where is None else self.filter(where, self.schema)
        deletes = self.delete_entries([m for m in manifests if m.is_deletes])
        keys = frozenset(id_ for entry in deletes for id_ in entry.file.equality_ids or ())
        data = [m for m in manifests if not m.is_deletes]
        statistics = keys | (fields_of(condition.predicate) if condition is not None else frozenset())
        opened = self.open(data, condition, statistics)
        files = list_files(
            opened.files, deletes, source=self.source, schema=self.schema, manifest_cache=self.manifest_cache
        )
        return PlannedScan(
            table=self.source.location,
            snapshot=None if snapshot is None else snapshot.id,
            schema=self.schema,
            columns=tuple(self.with_partition_type(f) for f in selected),
            filter=condition,
            rules=self.rules(),
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
            trusted=(*opened.trusted, *trusted_statistics(files.skipped, condition)),
            guarded=opened.guarded,
            storage=self.source.storage,
            statistics=_IcebergStatistics(self, opened.files.files, data, condition),
        )

    def filter(self, where: str | Filter, schema: Schema) -> Filter:
        """Return a filter on columns of `schema`, which may have more columns than the rows of the table."""
        parsed = filter_for(where, schema)
        return replace(parsed, columns=tuple(map(self.with_partition_type, parsed.columns)))

    def rules(self) -> IcebergRules:
        """Return the part of the plan that only Iceberg tables need."""
        metadata = self.source.metadata
        mapping = metadata.properties.get(NAME_MAPPING)
        return IcebergRules(
            location=metadata.location,
            path_map=self.source.path_map,
            name_mapping=None if mapping is None else parse_name_mapping(mapping, file=metadata.file),
        )

    def delete_entries(
        self, manifests: Sequence[ManifestFile], *, live_only: bool = True, choose: Choose | None = None
    ) -> tuple[ManifestEntry, ...]:
        """Return the delete files that manifests list, with all statistics, see `read_entries`."""
        with self._opening(manifests) as readers:
            return tuple(read_entries(readers, live_only=live_only, choose=choose))

    def all_data_files(self, manifests: Sequence[ManifestFile], statistics: frozenset[int]) -> DataFiles:
        """Return every data file that manifests list, including files of status deleted, with their snapshot ids."""
        with self._opening(manifests) as readers:
            return read_files(tuple(readers), Extent(tuple(sorted(statistics)), has_more=True, live_only=False))

    @contextmanager
    def _opening(self, manifests: Sequence[ManifestFile]) -> Iterator[Iterator[ManifestReader]]:
        """Yield an iterator over manifests with their headers read."""
        schemas = read_schema_first(self.source.metadata.schemas, self.schema)
        specs, limits = self.source.metadata.specs, self.source.storage.limits

        def open_reader(manifest: ManifestFile) -> ManifestReader:
            data = read(manifest)
            with contained(file=manifest.path):
                return open_manifest(data, manifest, specs=specs, schemas=schemas, limits=limits)

        with self.source.reading_manifests(manifests) as read:
            yield map(open_reader, manifests)

    def open(
        self, manifests: Sequence[ManifestFile], condition: Filter | None, statistics: frozenset[int]
    ) -> OpenedManifests:
        """Return the live data files of all manifests that trusted partition summaries do not exclude (iceberg 3.9).

        Contrary to iceberg 3.5, no manifest is skipped because of its counts, since a wrong count would lose rows. If a
        manifest that was read has a partition tuple outside its own summary, summaries of this table are wrong, and all
        manifests are read.
        """
        if condition is None or self.source.options.prune is not Prune.ALL:
            return OpenedManifests(self._data_files(manifests, statistics, condition), len(manifests))
        filters = self._manifest_filters(manifests, condition)
        may_match = np.ones(len(manifests), dtype=np.bool_)
        for spec_id, manifest_filter in filters.items():
            places = [place for place, manifest in enumerate(manifests) if manifest.spec_id == spec_id]
            may_match[places] = manifest_filter.may_hold([manifests[place] for place in places])
        selected = [manifests[place] for place in np.flatnonzero(may_match).tolist()]
        files = self._data_files(selected, statistics, condition)
        guarded = tuple(dict.fromkeys(sentence for each in filters.values() for sentence in each.guarded()))
        if len(selected) == len(manifests):
            return OpenedManifests(files, len(manifests), guarded=guarded)
        contradiction = _contradicting_manifest(selected, files, filters)
        if contradiction is None:
            trusted = tuple(t for f in filters.values() for t in f.trusted())
            return OpenedManifests(files, len(selected), trusted=trusted, guarded=guarded)
        warning = (
            f"Partition summaries of manifest {contradiction.path} are wrong, so no manifest is skipped [iceberg 3.9]"
        )
        return OpenedManifests(self._data_files(manifests, statistics, condition), len(manifests), (warning,))

    def _manifest_filters(
        self, manifests: Iterable[ManifestFile], condition: Filter
    ) -> Mapping[int | None, ManifestFilter]:
        """Return the filters on manifests, by the spec id of the manifests."""
        from harness.metadata.iceberg.summaries import ManifestFilter

        metadata = self.source.metadata
        summaries: dict[int | None, Mapping[str, str]] = {s.id: s.summary for s in metadata.snapshots.values()}
        spec_ids = {m.spec_id for m in manifests}
        return {
            spec.id: ManifestFilter(
                spec,
                projected(condition.predicate, spec, self.schema),
                self.schema,
                lambda manifest: summaries.get(manifest.added_snapshot_id),
            )
            for spec in metadata.specs.values()
            if spec.id in spec_ids and spec.fields  # other specs have no summaries
        }

    def _data_files(
        self, manifests: Sequence[ManifestFile], statistics: frozenset[int], condition: Filter | None
    ) -> FilteredFiles:
        manifest_cache = self.manifest_cache

        def is_cached(manifest: ManifestFile) -> bool:
            return (
                manifest_cache is not None and manifest_cache.get(manifest.path, tuple(sorted(statistics))) is not None
            )

        with self.source.reading_manifests(manifests, unless=is_cached) as read:
            return read_data_files(
                manifests,
                read=read,
                specs=self.source.metadata.specs,
                schemas=read_schema_first(self.source.metadata.schemas, self.schema),
                statistics=statistics,
                skip=None if condition is None else self.skip(condition),
                limits=self.source.storage.limits,
                manifest_cache=manifest_cache,
            )

    def skip(self, condition: Filter) -> Skip | None:
        """Return the function that decides which files a filter skips, or None if pruning is off."""
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

    def with_partition_type(self, column: Field) -> Field:
        """Return a column. If it is `_partition`, fill in its type (iceberg 5.17).

        `_partition` is a struct of the fields of all specs, or null if there are no fields.
        """
        if column.id != METADATA["_partition"].id:
            return column
        metadata = self.source.metadata
        fields = all_partition_fields(metadata, read_schema_first(metadata.schemas, self.schema))
        return replace(column, type=StructType(fields) if fields else UnknownType())


@dataclass(frozen=True, slots=True)
class OpenedManifests:
    """The live files of the data manifests that were not skipped, and the number of these manifests."""

    files: FilteredFiles
    manifests: int
    warnings: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()


def _contradicting_manifest(
    manifests: Sequence[ManifestFile], filtered: FilteredFiles, filters: Mapping[int | None, ManifestFilter]
) -> ManifestFile | None:
    """Return the first manifest with a partition tuple outside its summaries, or None."""
    tables = (filtered.files.table, filtered.skipped.table)
    tuples, numbers = (np.concatenate([to_numpy(t.column(c)) for t in tables]) for c in ("tuple", "manifest"))
    pairs = distinct_values(tuples.astype(np.int64) * len(manifests) + numbers)
    at, owner = np.divmod(pairs, len(manifests))
    is_outside = np.zeros(len(pairs), dtype=np.bool_)
    specs = np.array([manifest.spec_id for manifest in manifests], dtype=object)
    for spec_id, manifest_filter in filters.items():
        places = np.flatnonzero(specs[owner] == spec_id)
        tuples_of_spec = [filtered.files.tuples[place] for place in at[places].tolist()]
        is_outside[places] = manifest_filter.contradicted(manifests, owner[places], tuples_of_spec)
    return manifests[owner[is_outside][0]] if is_outside.any() else None


@dataclass(frozen=True, slots=True)
class _IcebergStatistics:
    """The statistics of the planned files."""

    scan: IcebergScan
    files: DataFiles
    manifests: Sequence[ManifestFile]
    condition: Filter | None

    def matches_all_rows(self) -> npt.NDArray[np.bool_]:
        skip = None if self.condition is None else self.scan.skip(opposite(self.condition))
        return np.zeros(len(self.files), dtype=np.bool_) if skip is None else skip(self.files) != KEPT

    def bounds(self, columns: Sequence[Field]) -> Mapping[int, ColumnBounds]:
        """Return the recorded bounds of columns in the planned files, by field id.

        The manifests are read again, because a plan keeps only the statistics of the columns in its filter. The result
        is empty if the manifests cannot be read again or list other files than before.
        """
        if not self.scan.source.options.prune.by_statistics:
            return {}
        field_ids = frozenset(f.id for f in columns)
        field_ids |= frozenset() if self.condition is None else fields_of(self.condition.predicate)
        try:
            current_files = self.scan.open(self.manifests, self.condition, field_ids).files.files
        except HarnessError:  # bounds are optional, even if the manifests could be read before
            return {}
        if not current_files.table.column("path").equals(self.files.table.column("path")):
            return {}
        return {f.id: bounds_of(current_files, f) for f in columns if f.id in current_files.fields}


_MIN_CACHED_FILES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FileList:
    """The parts of a `ScanPlan` that come from manifest entries. Its fields are described in `ScanPlan`."""

    files: pa.Table
    partitions: tuple[Partition, ...]
    equality_deletes: tuple[EqualityDelete, ...]
    delete_sets: tuple[tuple[int, ...], ...]
    position_deletes: PositionDeletes
    skipped: SkippedFiles


def list_files(
    data: FilteredFiles,
    deletes: tuple[ManifestEntry, ...],
    *,
    source: IcebergTable,
    schema: Schema,
    manifest_cache: ManifestCache | None = None,
) -> FileList:
    """Return the files of a scan with their deletes.

    Args:
        data: The live data files in order, skipped files included, with statistics of all equality keys.
        deletes: The live delete files, with all statistics.
        source: The table.
        schema: The schema of the read.
        manifest_cache: Remembers which manifests list no file twice; None disables it.

    Raises:
        InvalidTableError: A file is live twice (iceberg 2.13), or as for `DeleteIndex` and `key_columns`.
        CorruptDeleteError: As for `DeleteIndex`.
        UnsupportedError: As for `DeleteIndex` and `key_columns`.
    """
    metadata, options = source.metadata, source.options
    files = data.files
    chunks = files.table.column("path").chunks
    paths = cache(lambda: pa.chunked_array([*chunks, *data.skipped.paths().chunks], pa.string()))
    if not options.allow_duplicate_files:
        _refuse_duplicates(data, paths, manifest_cache)
    spellings = PathSpellings(source.path_map, metadata.location, source.location, source.storage.untrusted)
    partitions = Partitions(metadata.specs, read_schema_first(metadata.schemas, schema))
    index = index_deletes(deletes, paths, spellings, source=source, partitions=partitions)
    numbers = partition_numbers(files, partitions)
    positional, positions = position_deletes(files, index, partitions, source.path_map)
    warn_of_stray_deletes(index, files, paths, spellings)
    scopes = delete_sets_of(index, source=source, partitions=partitions)
    delete_sets = scopes.number(files, *equality_deletes(files, index, partitions))

    return FileList(
        files=files_table(files, numbers, delete_sets, positions, source),
        equality_deletes=scopes.used_deletes(),
        delete_sets=scopes.all_sets(),
        partitions=partitions.all(),
        position_deletes=positional,
        skipped=skipped_files(data.skipped, files, partitions),
    )


def index_deletes(
    deletes: tuple[ManifestEntry, ...],
    paths: Callable[[], pa.ChunkedArray],
    spellings: PathSpellings,
    *,
    source: IcebergTable,
    partitions: Partitions,
) -> DeleteIndex:
    """Return an index of the live delete files of a snapshot. Raises the errors of `DeleteIndex.build`.

    Args:
        deletes: The delete files, with all statistics.
        paths: Returns the recorded paths of all live data files.
        spellings: The spellings of paths of data files.
        source: The table.
        partitions: The partition tuples of the scan.
    """
    deletes = apply_path_map(deletes, paths, spellings)
    scope = DeleteScope(
        partition_of=lambda file: partitions.key_of(file.spec_id, file.partition),
        specs=source.metadata.specs,
        lenient=source.options.lenient_delete_partition,
        trusted=not source.storage.untrusted,
    )
    live_paths = live_among(single_targets(deletes), paths)
    return DeleteIndex.build(deletes, scope, format_version=source.metadata.format_version, live_paths=live_paths)


def delete_sets_of(index: DeleteIndex, *, source: IcebergTable, partitions: Partitions) -> DeleteSets:
    """Return the equality deletes of an index with their keys. Raises the errors of `key_columns`."""
    keys = [
        key_columns(e.file.equality_ids or (), partitions.schemas, file=e.file.path) for e in index.equality_deletes
    ]
    return DeleteSets(index.equality_deletes, keys, source, partitions)


def skipped_files(skipped: SkippedDataFiles, files: DataFiles, partitions: Partitions) -> SkippedFiles:
    """Return the skipped files of a plan.

    Args:
        skipped: The files.
        files: The other files. They share the partition tuples with `skipped`.
        partitions: The partition tuples of the plan.
    """

    def load() -> tuple[Mapping[str, Any], tuple[Partition, ...]]:
        columns = {name: skipped.table.column(name) for name in ("record_count", "size")}
        numbers = partition_numbers(replace(files, table=skipped.table), partitions)
        return {**columns, "path": skipped.paths(), "partition": from_numpy(numbers)}, partitions.all()

    return SkippedFiles.lazy(to_numpy(skipped.table.column("decision")), load)


def _refuse_duplicates(
    data: FilteredFiles, load: Callable[[], pa.ChunkedArray], manifest_cache: ManifestCache | None
) -> None:
    """Raise InvalidTableError if a file is live twice (iceberg 2.13)."""
    # With fewer files, comparing the paths is faster than asking the cache.
    path_cache = manifest_cache if len(data.files) + len(data.skipped) >= _MIN_CACHED_FILES else None
    tables = (data.files.table, data.skipped.table)
    manifests: list[str] = []
    if path_cache is not None:
        manifest_numbers = np.concatenate([distinct_values(to_numpy(t.column("manifest"))) for t in tables])
        manifests = sorted({data.files.manifests[number] for number in manifest_numbers.tolist()})
        if path_cache.has_distinct_paths(manifests):
            return
    paths = load()
    path = first_repeated(paths)
    if path is None:
        if path_cache is not None:
            path_cache.note_distinct_paths(manifests)
        return
    places = pc.indices_nonzero(pc.equal(paths, scalar_of(path, pa.string()))).to_pylist()
    numbers = np.concatenate([to_numpy(t.column("manifest")) for t in tables])
    first, second = (data.files.manifests[number] for number in sorted(numbers[places[:2]].tolist()))
    raise duplicate_data_file(path, first, second)


def duplicate_data_file(path: str, first: str, second: str) -> InvalidTableError:
    """Return the error for a data file that two manifests of one state list."""
    message = (
        f"Data file is live twice, in manifests {first} and {second}, so its rows are"
        " undefined. Rewrite the manifests, or allow duplicates to read its rows twice"
    )
    return InvalidTableError(message, cause="DuplicateDataFile", file=path, rule="iceberg 2.13")


def apply_path_map(
    deletes: tuple[ManifestEntry, ...], paths: Callable[[], pa.ChunkedArray], spellings: PathSpellings
) -> tuple[ManifestEntry, ...]:
    """Return the deletes with the paths of their data files as recorded in the manifests.

    A path is replaced if the caller's path map equates it with the path of a live data file.
    """
    if not spellings.path_map.explicit_count:
        return deletes
    targets = {target for entry in deletes if (target := entry.file.referenced_data_file) is not None}
    if targets == live_among(frozenset(targets), paths):
        return deletes
    live = frozenset(paths().to_pylist())
    replacements = {
        path: live_path for path in targets - live if (live_path := spellings.equivalent_path(path, live)) is not None
    }
    return tuple(
        entry
        if (path := entry.file.referenced_data_file) is None or path not in replacements
        else replace(entry, file=replace(entry.file, referenced_data_file=replacements[path]))
        for entry in deletes
    )


def warn_of_stray_deletes(
    index: DeleteIndex,
    files: DataFiles,
    paths: Callable[[], pa.ChunkedArray],
    spellings: PathSpellings,
) -> None:
    """Warn about a delete whose data file is not live, if a live path differs from it only by scheme or authority."""
    planned = files.table.column("path")
    stray = index.named_paths - live_among(index.named_paths, lambda: planned)
    if not stray:
        return
    strays = spellings.similar_paths(stray, authorities(planned))
    matches = live_among(frozenset(strays), paths)
    path = next((strays[data] for data in sorted(matches) if not live_among(frozenset([strays[data]]), paths)), None)
    if path is not None:
        data = next(data for data in sorted(matches) if strays[data] == path)
        spellings.warn(index.delete_for_path(path).file.path, path, data)


def live_among(paths: frozenset[str], live: Callable[[], pa.ChunkedArray]) -> frozenset[str]:
    """Return the subset of `paths` that belong to live data files."""
    if not paths:
        return frozenset()
    candidates = array_of(sorted(paths), pa.string())
    return frozenset(candidates.filter(pc.is_in(candidates, value_set=live().combine_chunks())).to_pylist())


def partition_numbers(files: DataFiles, partitions: Partitions) -> npt.NDArray[np.int32]:
    """Return the number of each file's partition in the plan, in the order of the files."""
    codes = to_numpy(files.table.column("tuple"))
    distinct_codes, first = np.unique(codes, return_index=True)
    specs = files.specs_of_tuples()
    numbers_by_code = np.zeros(len(files.tuples), dtype=np.int32)
    for code in distinct_codes[np.argsort(first)].tolist():
        numbers_by_code[code] = partitions.index_of(specs[code], files.tuples[code])
    numbers: npt.NDArray[np.int32] = numbers_by_code[codes]
    return numbers


def files_table(
    files: DataFiles,
    partitions: npt.NDArray[np.int32],
    delete_sets: pa.Array,
    positions: pa.Array,
    source: IcebergTable,
) -> pa.Table:
    """Return data files as a table of `FILES`, given the columns that are not in the manifests."""
    columns = {name: files.table.column(name) for name in FILES.names if name in files.table.column_names}
    columns |= {
        "physical": physical_paths(source.path_map, files.table.column("path")),
        "partition": from_numpy(partitions),
        "delete_set": delete_sets,
        "positions": positions,
        "commit_version": pa.nulls(len(files), pa.int64()),
    }
    try:
        return pa.table([columns[name] for name in FILES.names], schema=FILES)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        message = f"Invalid manifest: a number or text in it does not fit its type: {error}"
        raise CorruptFileError(message, cause="CorruptManifest", rule="iceberg 2.7") from error


_URI = "^[A-Za-z][A-Za-z0-9+.-]*://"


def physical_paths(path_map: PathMap, recorded: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the physical paths of many recorded paths at once, as `PathMap.physical` does for one."""
    plain = pc.or_(pc.starts_with(recorded, "/"), pc.match_substring_regex(recorded, _URI))
    plain = pc.and_not(plain, pc.match_substring_regex(recorded, "^[fF][iI][lL][eE]:"))
    if pc.all(plain).as_py() is False or any(not new.rstrip("/") for _, new in path_map.prefixes):
        return pa.chunked_array([array_of([path_map.physical(p) for p in recorded.to_pylist()], pa.string())])
    paths, open_ = recorded, None
    for old, new in path_map.prefixes:
        prefix = local_path(old).rstrip("/")
        if not prefix or not is_possible_name(prefix):  # no recorded path starts with a prefix that is not UTF-8
            continue
        hit = pc.or_(pc.equal(recorded, scalar_of(prefix, pa.string())), pc.starts_with(recorded, prefix + "/"))
        hit = hit if open_ is None else pc.and_(hit, open_)
        open_ = pc.invert(hit) if open_ is None else pc.and_not(open_, hit)
        if pc.any(hit).as_py():
            head = absolute(new.rstrip("/"), path_map.base)
            rest = pc.utf8_slice_codeunits(recorded, len(prefix))
            new_paths = pc.binary_join_element_wise(scalar_of(head, pa.string()), rest, scalar_of("", pa.string()))
            paths = pc.if_else(hit, new_paths, paths)
    return paths
