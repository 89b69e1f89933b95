"""From noted places to the columns of live data files: inheritance, partition tuples and checks (iceberg 2.6-2.21)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.iceberg.columns.data_files import BOUNDS, COUNTS, DataFiles, schema_of, statistic
from harness.iceberg.columns.sifting import Sift, Sifted, left_out, of_manifest
from harness.iceberg.columns.values import Mask, bounds, byte_strings, counts, numbers
from harness.iceberg.columns.varints import Places, Unsure
from harness.iceberg.columns.walk import Walk
from harness.iceberg.manifest_entries import FILE_FORMATS, Content, Status
from harness.iceberg.manifests import ManifestReader
from harness.model.arrow_values import array_of, from_numpy, scalar_of, to_numpy
from harness.plan.skipped_files import KEPT


@dataclass(frozen=True, slots=True)
class Part:
    """One manifest of a walk. number: its place in the list. size: its entries."""

    number: int
    reader: ManifestReader
    size: int


def assembled(found: Walk, parts: Sequence[Part], fields: tuple[int, ...], sift: Sift | None) -> dict[int, Sifted]:
    """The live data files of each manifest, by its number.

    Raises:
        Unsure: an entry that is damaged, encrypted or not allowed.
    """
    owner = np.repeat(np.arange(len(parts)), [part.size for part in parts])
    status, stated = numbers(found, "status")
    if not stated.all() or not np.isin(status, _STATUSES).all():
        raise Unsure
    live = np.flatnonzero(status != Status.DELETED)
    owner, status = owner[live], status[live]
    _check(found, live)
    counts_, counted = _taken(numbers(found, "record_count"), live)
    counted &= counts_ >= 0
    sizes, sized = _taken(numbers(found, "file_size_in_bytes"), live)
    codes, tuples = _partitions(found, live, owner, parts)
    columns: dict[str, Any] = {
        "manifest": from_numpy(_of_parts([part.number for part in parts], owner).astype(np.int32)),
        "status": from_numpy(status.astype(np.int8)),
        "sequence_number": from_numpy(_sequence_numbers(found, live, owner, status, parts)),
        "path": _texts(found, "file_path", live),
        "format": _formats(found, live),
        "spec_id": from_numpy(_of_parts([part.reader.spec.id for part in parts], owner).astype(np.int32)),
        "tuple": from_numpy(codes),
        "record_count": from_numpy(counts_, missing=~counted),
        "size": from_numpy(sizes, missing=~sized),
        "first_row_id": _row_ids(found, live, owner, (counts_, counted), parts),
        **{statistic(name, key): pa.nulls(len(live), pa.int64()) for name in COUNTS for key in fields},
        **_bounds(found, live, fields),
    }
    files = DataFiles(_table(columns, fields), (), tuples, fields)
    together = _sifted(files, found, live, sift)
    return {part.number: of_manifest(together, part.number) for part in parts}


def _table(columns: Mapping[str, Any], fields: tuple[int, ...]) -> pa.Table:
    schema = schema_of(fields)
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _sifted(files: DataFiles, found: Walk, live: Places, sift: Sift | None) -> Sifted:
    """The files with their counts, which cost most, and of which only those that bounds leave are looked at."""
    verdicts = np.full(len(files), KEPT, dtype=np.int8) if sift is None else sift(files)
    kept = np.flatnonzero(verdicts == KEPT)
    some = files.take(kept)
    columns = _counts(found, live[kept], files.fields)
    names = {name: columns.get(name, some.table.column(name)) for name in some.table.column_names}
    counted = DataFiles(_table(names, files.fields), (), files.tuples, files.fields)
    if sift is not None and columns:
        verdicts[kept] = again = sift(counted)
        counted = counted.take(np.flatnonzero(again == KEPT))
    dropped = np.flatnonzero(verdicts != KEPT)
    return Sifted(counted, left_out(files.table.take(from_numpy(dropped)), verdicts[dropped]))


_STATUSES = tuple(int(status) for status in Status)


def _taken(values: tuple[Places, Mask], places: Places) -> tuple[Places, Mask]:
    return values[0][places], values[1][places]


def _of_parts(values: Sequence[int], owner: Places) -> Places:
    """A value of each entry's manifest."""
    found: Places = np.array(values, dtype=np.int64)[owner] if values else np.zeros(0, dtype=np.int64)
    return found


def _check(found: Walk, live: Places) -> None:
    """Only data files (iceberg 2.20), and none that is encrypted (iceberg 2.19)."""
    content, stated = _taken(numbers(found, "content"), live)
    if (content[stated] != Content.DATA).any():
        raise Unsure
    starts, ends = found.starts.get("key_metadata"), found.ends.get("key_metadata")
    if starts is not None and ends is not None and (ends[live] > starts[live]).any():
        raise Unsure


def _texts(found: Walk, slot: str, live: Places) -> pa.Array:
    array = byte_strings(found, slot, live)
    if array.null_count:
        raise Unsure
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise Unsure from error


def _formats(found: Walk, live: Places) -> pa.Array:
    encoded = _texts(found, "file_format", live).dictionary_encode()
    lower = [text.lower() for text in encoded.dictionary.to_pylist()]
    if not FILE_FORMATS.issuperset(lower) or "puffin" in lower:
        raise Unsure
    return array_of(lower, pa.string()).take(encoded.indices)


def _sequence_numbers(found: Walk, live: Places, owner: Places, status: Places, parts: Sequence[Part]) -> Places:
    """Data sequence numbers, inherited where an entry has none (iceberg 2.9)."""
    values, stated = _taken(numbers(found, "sequence_number"), live)
    if stated.all():
        return values
    of_manifest = _of_parts([part.reader.manifest.sequence_number for part in parts], owner)
    is_v1 = _of_parts([part.reader.is_v1 for part in parts], owner) == 1
    inherits = (of_manifest == 0) | (status == Status.ADDED)
    if not (stated | inherits | is_v1).all():
        raise Unsure
    return np.where(stated, values, np.where(inherits, of_manifest, 0))


def _row_ids(
    found: Walk, live: Places, owner: Places, record_counts: tuple[Places, Mask], parts: Sequence[Part]
) -> pa.Array:
    """Ids of first rows, where the manifest assigns them: files without one follow each other (iceberg 2.11)."""
    starts = [part.reader.manifest.first_row_id for part in parts]
    if all(start is None for start in starts):
        return pa.nulls(len(live), pa.int64())
    values, stated = _taken(numbers(found, "first_row_id"), live)
    assigns = np.array([start is not None for start in starts], dtype=np.bool_)[owner]
    assigned = assigns & ~stated
    rows, counted = record_counts
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
    found: Walk, live: Places, owner: Places, parts: Sequence[Part]
) -> tuple[npt.NDArray[np.int32], list[Mapping[int, Any]]]:
    """Per file the number of its partition tuple, and the tuples; equal bytes of one spec are decoded once."""
    starts = found.starts.get("partition")
    if starts is not None and not len(live):
        return np.zeros(0, dtype=np.int32), []
    specs = _of_parts([part.reader.spec.id for part in parts], owner)
    if starts is None:
        readers = {part.reader.spec.id: part.reader for part in parts}
        used, codes = np.unique(specs, return_inverse=True)
        return codes.astype(np.int32), [readers[spec].no_partition() for spec in used.tolist()]
    encoded = byte_strings(found, "partition", live).dictionary_encode()
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


def _counts(found: Walk, places: Places, fields: tuple[int, ...]) -> dict[str, pa.Array]:
    return {
        statistic(name, key): from_numpy(values, missing=~known)
        for name in COUNTS
        for key, (values, known) in counts(found, name, fields, places).items()
    }


def _bounds(found: Walk, live: Places, fields: tuple[int, ...]) -> dict[str, pa.Array]:
    return {statistic(name, key): bounds(found, name, key, live) for name in BOUNDS for key in fields}
