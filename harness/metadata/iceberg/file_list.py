"""The data files of a scan as the columns of a `ScanPlan`, with the deletes that hit each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import CorruptFileError, InvalidTableError
from harness.metadata.deletes.matching import Spellings, authorities
from harness.metadata.iceberg.columns.entries import DataFiles, FilteredFiles
from harness.metadata.iceberg.columns.raw import KeptManifests
from harness.metadata.iceberg.delete_scope import DeleteIndex, DeleteScope, single_targets
from harness.metadata.iceberg.manifests import ManifestEntry
from harness.metadata.iceberg.planned_deletes import DeleteSets, equality_deletes, key_columns, position_deletes
from harness.metadata.iceberg.values import Partitions, read_schema_first
from harness.metadata.model.arrow_values import array_of, distinct, first_repeated, from_numpy, scalar_of, to_numpy
from harness.metadata.model.schema import Schema
from harness.metadata.plan.deletes import EqualityDelete, PositionDeletes
from harness.metadata.plan.scan_plan import FILES, Partition, SkippedFiles
from harness.storage.gate import is_name
from harness.storage.paths import PathMap, absolute, local_path
from harness.storage.records import dataclass

if TYPE_CHECKING:
    from harness.metadata.iceberg.table import IcebergTable

_MANY = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FileList:
    """The part of a `ScanPlan` that comes from manifest entries; fields as there."""

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
    kept: KeptManifests | None = None,
) -> FileList:
    """The files of a scan.

    Args:
        data: the live data files, skipped ones too, in order, with statistics of all equality keys.
        deletes: the live delete files, with all statistics.
        schema: the scan's.

    Raises:
        InvalidTableError, CorruptDeleteError, UnsupportedError: as for `DeleteIndex` and `key_columns`; a file is live
            twice (iceberg 2.13).
    """
    metadata, options = source.metadata, source.options
    files = data.files
    chunks = files.table.column("path").chunks
    paths = cache(lambda: pa.chunked_array([*chunks, *data.skipped.paths().chunks], pa.string()))
    if not options.allow_duplicate_files:
        _refuse_duplicates(data, paths, kept)
    spellings = Spellings(source.path_map, metadata.location, source.location, source.storage.untrusted)
    deletes = _joined(deletes, paths, spellings)
    partitions = Partitions(metadata.specs, read_schema_first(metadata.schemas, schema))
    scope = DeleteScope(
        partition_of=lambda file: partitions.key_of(file.spec_id, file.partition),
        specs=metadata.specs,
        lenient=options.lenient_delete_partition,
        trusted=not source.storage.untrusted,
    )
    live_paths = _live_among(single_targets(deletes), paths)
    index = DeleteIndex.build(deletes, scope, format_version=metadata.format_version, live_paths=live_paths)
    numbers = _partition_numbers(files, partitions)
    positional, positions = position_deletes(files, index, partitions, source.path_map)
    _tell_of_targets(index, files, paths, spellings)
    keys = [
        key_columns(e.file.equality_ids or (), partitions.schemas, file=e.file.path) for e in index.equality_deletes
    ]
    scopes = DeleteSets(index.equality_deletes, keys, source, partitions)
    delete_sets = scopes.number(files, *equality_deletes(files, index, partitions))

    def described() -> tuple[Mapping[str, Any], tuple[Partition, ...]]:
        columns = {name: data.skipped.table.column(name) for name in ("record_count", "size")}
        numbers = _partition_numbers(replace(files, table=data.skipped.table), partitions)
        return {**columns, "path": data.skipped.paths(), "partition": from_numpy(numbers)}, partitions.all()

    return FileList(
        files=_table(files, numbers, delete_sets, positions, source),
        equality_deletes=scopes.used(),
        delete_sets=scopes.all(),
        partitions=partitions.all(),
        position_deletes=positional,
        skipped=SkippedFiles.of(to_numpy(data.skipped.table.column("verdict")), described),
    )


def _refuse_duplicates(data: FilteredFiles, load: Callable[[], pa.ChunkedArray], kept: KeptManifests | None) -> None:
    """Raises InvalidTableError if a file is live twice (iceberg 2.13)."""
    # Of some thousand files it is told more quickly than it is looked up.
    known = kept if len(data.files) + len(data.skipped) >= _MANY else None
    tables = (data.files.table, data.skipped.table)
    manifests: list[str] = []
    if known is not None:
        used = np.concatenate([distinct(to_numpy(t.column("manifest"))) for t in tables])
        manifests = sorted({data.files.manifests[number] for number in used.tolist()})
        if known.has_distinct_paths(manifests):
            return
    paths = load()
    path = first_repeated(paths)
    if path is None:
        if known is not None:
            known.note_distinct_paths(manifests)
        return
    places = pc.indices_nonzero(pc.equal(paths, scalar_of(path, pa.string()))).to_pylist()
    numbers = np.concatenate([to_numpy(t.column("manifest")) for t in tables])
    first, second = (data.files.manifests[number] for number in sorted(numbers[places[:2]].tolist()))
    message = (
        f"Data file is live twice, in manifests {first} and {second}, so its rows are"
        " undefined. Rewrite the manifests, or allow duplicates to read its rows twice"
    )
    raise InvalidTableError(message, cause="DuplicateDataFile", file=path, rule="iceberg 2.13")


def _joined(
    deletes: tuple[ManifestEntry, ...], paths: Callable[[], pa.ChunkedArray], spellings: Spellings
) -> tuple[ManifestEntry, ...]:
    """The deletes, under the path of their data file where the caller's path map equates two paths."""
    if not spellings.path_map.said:
        return deletes
    named = {target for entry in deletes if (target := entry.file.referenced_data_file) is not None}
    if named == _live_among(frozenset(named), paths):
        return deletes
    live = frozenset(paths().to_pylist())
    other = {path: joined for path in named - live if (joined := spellings.joined(path, live)) is not None}
    return tuple(
        entry
        if (path := entry.file.referenced_data_file) is None or path not in other
        else replace(entry, file=replace(entry.file, referenced_data_file=other[path]))
        for entry in deletes
    )


def _tell_of_targets(
    index: DeleteIndex,
    files: DataFiles,
    paths: Callable[[], pa.ChunkedArray],
    spellings: Spellings,
) -> None:
    """Warns of a delete for a data file that is not live, while a live path differs by scheme or authority alone."""
    planned = files.table.column("path")
    stray = index.named_paths - _live_among(index.named_paths, lambda: planned)
    if not stray:
        return
    others = spellings.alike(stray, authorities(planned))
    near = _live_among(frozenset(others), paths)
    path = next((others[data] for data in sorted(near) if not _live_among(frozenset([others[data]]), paths)), None)
    if path is not None:
        data = next(data for data in sorted(near) if others[data] == path)
        spellings.tell(index.of_path(path).file.path, path, data)


def _live_among(paths: frozenset[str], live: Callable[[], pa.ChunkedArray]) -> frozenset[str]:
    """The paths among `paths` that live data files have."""
    if not paths:
        return frozenset()
    known = array_of(sorted(paths), pa.string())
    return frozenset(known.filter(pc.is_in(known, value_set=live().combine_chunks())).to_pylist())


def _partition_numbers(files: DataFiles, partitions: Partitions) -> npt.NDArray[np.int32]:
    """The number of each file's partition in the plan, in the order of the files."""
    codes = to_numpy(files.table.column("tuple"))
    used, first = np.unique(codes, return_index=True)
    specs = files.specs_of_tuples()
    numbers = np.zeros(len(files.tuples), dtype=np.int32)
    for code in used[np.argsort(first)].tolist():
        numbers[code] = partitions.index_of(specs[code], files.tuples[code])
    found: npt.NDArray[np.int32] = numbers[codes]
    return found


def _table(
    kept: DataFiles,
    partitions: npt.NDArray[np.int32],
    delete_sets: pa.Array,
    positions: pa.Array,
    source: IcebergTable,
) -> pa.Table:
    columns = {name: kept.table.column(name) for name in FILES.names if name in kept.table.column_names}
    columns |= {
        "physical": physical_paths(source.path_map, kept.table.column("path")),
        "partition": from_numpy(partitions),
        "delete_set": delete_sets,
        "positions": positions,
        "commit_version": pa.nulls(len(kept), pa.int64()),
    }
    try:
        return pa.table([columns[name] for name in FILES.names], schema=FILES)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        message = f"Invalid manifest: a number or a text in it is beyond what its type holds: {error}"
        raise CorruptFileError(message, cause="CorruptManifest", rule="iceberg 2.7") from error


_URI = "^[A-Za-z][A-Za-z0-9+.-]*://"


def physical_paths(path_map: PathMap, recorded: pa.ChunkedArray) -> pa.ChunkedArray:
    """`PathMap.physical` of many paths at once."""
    plain = pc.or_(pc.starts_with(recorded, "/"), pc.match_substring_regex(recorded, _URI))
    plain = pc.and_not(plain, pc.match_substring_regex(recorded, "^[fF][iI][lL][eE]:"))
    if pc.all(plain).as_py() is False or any(not new.rstrip("/") for _, new in path_map.prefixes):
        return pa.chunked_array([array_of([path_map.physical(p) for p in recorded.to_pylist()], pa.string())])
    found, open_ = recorded, None
    for old, new in path_map.prefixes:
        prefix = local_path(old).rstrip("/")
        if not prefix or not is_name(prefix):  # no recorded path begins with what is not UTF-8
            continue
        hit = pc.or_(pc.equal(recorded, scalar_of(prefix, pa.string())), pc.starts_with(recorded, prefix + "/"))
        hit = hit if open_ is None else pc.and_(hit, open_)
        open_ = pc.invert(hit) if open_ is None else pc.and_not(open_, hit)
        if pc.any(hit).as_py():
            head = absolute(new.rstrip("/"), path_map.base)
            rest = pc.utf8_slice_codeunits(recorded, len(prefix))
            moved = pc.binary_join_element_wise(scalar_of(head, pa.string()), rest, scalar_of("", pa.string()))
            found = pc.if_else(hit, moved, found)
    return found
