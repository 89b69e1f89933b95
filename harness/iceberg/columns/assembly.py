"""From entries as written to the columns of live data files: inheritance and partition tuples (iceberg 2.6-2.21)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.iceberg.columns.data_files import COLUMNS, COUNTS, DataFiles, schema_of, statistic
from harness.iceberg.columns.raw import Paths, Raw
from harness.iceberg.columns.sifting import LeftOut, Sift, Sifted
from harness.iceberg.columns.values import Mask
from harness.iceberg.columns.varints import Places, Unsure
from harness.iceberg.manifest_entries import Status
from harness.iceberg.manifests import ManifestReader
from harness.model.arrow_values import from_numpy, scalar_of, to_numpy
from harness.plan.skipped_files import KEPT
from harness.records import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """One manifest of several. number: its place in the list. size: its live entries."""

    number: int
    reader: ManifestReader
    size: int


def assembled(raw: Raw, parts: Sequence[Part], sift: Sift | None) -> Sifted:
    """The live data files of some manifests. raw: those of all, in the order of `parts`.

    Raises:
        Unsure: an entry that is damaged or not allowed.
    """
    owner = np.repeat(np.arange(len(parts)), [part.size for part in parts])
    codes, tuples = _partitions(raw, owner, parts)
    columns: dict[str, Any] = {
        "manifest": from_numpy(_of_parts([part.number for part in parts], owner).astype(np.int32)),
        "status": raw.table.column("status"),
        "sequence_number": from_numpy(_sequence_numbers(raw, owner, parts)),
        "format": raw.table.column("format"),
        "spec_id": from_numpy(_of_parts([part.reader.spec.id for part in parts], owner, bits=32).astype(np.int32)),
        "tuple": from_numpy(codes),
        "record_count": raw.table.column("record_count"),
        "size": raw.table.column("size"),
        "first_row_id": _row_ids(raw, owner, parts),
        **{statistic(name, key): pa.nulls(len(raw), pa.int64()) for name in COUNTS for key in raw.fields},
    }
    schema = pa.schema([field for field in schema_of(raw.fields) if field.name != "path"])
    arrays = [columns[name] if name in columns else raw.table.column(name) for name in schema.names]
    facts = DataFiles(pa.Table.from_arrays(arrays, schema=schema), (), tuples, raw.fields)
    return _sifted(facts, raw, sift)


def _sifted(files: DataFiles, raw: Raw, sift: Sift | None) -> Sifted:
    """The files with their counts, which cost most, and of which only those that bounds leave are looked at.

    files: still without paths.
    """
    verdicts = np.full(len(files), KEPT, dtype=np.int8) if sift is None else sift(files)
    kept = np.flatnonzero(verdicts == KEPT)
    counted = _counted(files.take(kept), raw, kept)
    if sift is not None and files.fields:
        verdicts[kept] = again = sift(counted)
        counted, kept = counted.take(np.flatnonzero(again == KEPT)), kept[again == KEPT]
    dropped = np.flatnonzero(verdicts != KEPT)
    place = COLUMNS.get_field_index("path")
    paths = raw.paths  # and not all of what was decoded, for as long as somebody may ask
    table = counted.table.add_column(place, COLUMNS.field(place), _some(paths, kept))
    return Sifted(
        DataFiles(table, (), files.tuples, files.fields),
        LeftOut.of(files.table, verdicts, cache(lambda: _some(paths, dropped))),
    )


def _counted(files: DataFiles, raw: Raw, places: Places) -> DataFiles:
    table = files.table
    if not len(files):
        return files
    for name in COUNTS if files.fields else ():
        for key, (values, known) in raw.counts(name, files.fields, places).items():
            at = table.schema.get_field_index(statistic(name, key))
            table = table.set_column(at, table.schema.field(at), from_numpy(values, missing=~known))
    return DataFiles(table, (), files.tuples, files.fields)


def _some(paths: Paths, places: Places) -> pa.ChunkedArray:
    if not len(places):
        return pa.chunked_array([], pa.string())
    found = paths()
    return found if len(places) == len(found) else found.take(from_numpy(places))


def _of_parts(values: Sequence[int], owner: Places, *, bits: int = 64) -> Places:
    """A value of each entry's manifest. Raises Unsure: one is beyond what its column holds."""
    if any(not -(1 << bits - 1) <= value < 1 << bits - 1 for value in values):
        raise Unsure
    found: Places = np.array(values, dtype=np.int64)[owner] if values else np.zeros(0, dtype=np.int64)
    return found


def _numbers(raw: Raw, name: str) -> tuple[Places, Mask]:
    column = raw.table.column(name)
    return to_numpy(pc.fill_null(column, scalar_of(0, pa.int64()))), to_numpy(column.is_valid())


def _sequence_numbers(raw: Raw, owner: Places, parts: Sequence[Part]) -> Places:
    """Data sequence numbers, inherited where an entry has none (iceberg 2.9)."""
    values, stated = _numbers(raw, "sequence_number")
    if stated.all():
        return values
    status = to_numpy(raw.table.column("status"))
    of_manifest = _of_parts([part.reader.manifest.sequence_number for part in parts], owner)
    is_v1 = _of_parts([part.reader.is_v1 for part in parts], owner) == 1
    inherits = (of_manifest == 0) | (status == Status.ADDED)
    if not (stated | inherits | is_v1).all():
        raise Unsure
    return np.where(stated, values, np.where(inherits, of_manifest, 0))


def _row_ids(raw: Raw, owner: Places, parts: Sequence[Part]) -> pa.Array:
    """Ids of first rows, where the manifest assigns them: files without one follow each other (iceberg 2.11)."""
    starts = [part.reader.manifest.first_row_id for part in parts]
    if all(start is None for start in starts):
        return pa.nulls(len(raw), pa.int64())
    values, stated = _numbers(raw, "first_row_id")
    assigns = np.array([start is not None for start in starts], dtype=np.bool_)[owner]
    assigned = assigns & ~stated
    rows, counted = _numbers(raw, "record_count")
    if not counted[assigned].all() or float(rows[assigned].sum(dtype=np.float64)) >= 2.0**62:
        raise Unsure
    if any(start is not None and not 0 <= start < 1 << 62 for start in starts):
        raise Unsure
    before = np.cumsum(np.where(assigned, rows, 0)) - np.where(assigned, rows, 0)
    # Each manifest begins anew.
    first = np.searchsorted(owner, np.arange(len(parts)))
    base = np.array([before[i] if i < len(before) else 0 for i in first.tolist()], dtype=np.int64)
    begin = _of_parts([start or 0 for start in starts], owner)
    return from_numpy(np.where(stated, values, begin + before - base[owner]), missing=~assigns)


def _partitions(
    raw: Raw, owner: Places, parts: Sequence[Part]
) -> tuple[npt.NDArray[np.int32], list[Mapping[int, Any]]]:
    """Per file the number of its partition tuple, and the tuples; equal bytes of one spec are decoded once."""
    if not len(raw):
        return np.zeros(0, dtype=np.int32), []
    encoded = raw.table.column("partition").combine_chunks()
    # A null tuple, too, is a tuple.
    contents = [None, *encoded.dictionary.to_pylist()]
    within = to_numpy(pc.fill_null(encoded.indices, scalar_of(-1, pa.int32()))).astype(np.int64) + 1
    ordinals = {spec: i for i, spec in enumerate(sorted({part.reader.spec.id for part in parts}))}
    pairs = np.array([ordinals[part.reader.spec.id] for part in parts])[owner] * len(contents) + within
    used, first, codes = np.unique(pairs, return_index=True, return_inverse=True)
    tuples: list[Mapping[int, Any]] = []
    decoders: dict[int, Callable[[bytes], Mapping[int, Any]]] = {}
    try:
        for pair, place in zip(used.tolist(), first.tolist(), strict=True):
            content, reader = contents[pair % len(contents)], parts[int(owner[place])].reader
            if reader.spec.id not in decoders:
                decoders[reader.spec.id] = reader.partition_decoder()
            tuples.append(reader.no_partition() if content is None else decoders[reader.spec.id](content))
    except (ArithmeticError, LookupError, ValueError, TypeError) as error:
        raise Unsure from error
    return codes.astype(np.int32), tuples
