"""What manifests record of each entry that no plan needs, deleted ones too, as columns: for metadata tables.

Beside `reading`, whose columns are those of live data files, and kept in memory and on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from harness.metadata.iceberg.columns.entries import Batch, Blocks
from harness.metadata.iceberg.columns.raw import Mask, counts, lists, live_entries, numbers
from harness.metadata.iceberg.columns.varints import Places, Unsure
from harness.metadata.iceberg.columns.walk import PATH, Slot, Walk
from harness.metadata.iceberg.manifest_entries import ManifestEntry, Status, inherited_sequence_number
from harness.metadata.iceberg.manifests import ALL, ManifestReader
from harness.metadata.model.arrow_values import array_of, from_numpy
from harness.storage.limits import contained

SIZES = "column_sizes"
_FACTS = pa.schema(
    [
        pa.field("status", pa.int32()),
        pa.field("snapshot_id", pa.int64()),  # inherited where the entry has none
        pa.field("file_sequence_number", pa.int64()),  # likewise
        pa.field("sort_order_id", pa.int32()),
        pa.field("split_offsets", pa.list_(pa.int64())),  # null: none, or an empty list
    ]
)


def recorded_schema(keys: Sequence[int]) -> pa.Schema:
    """The columns of `recorded`: after the facts, the sizes of some columns of the table, by field id."""
    return pa.schema([*_FACTS, *(pa.field(f"{SIZES}.{key}", pa.int64()) for key in keys)])


def recorded(readers: Iterable[ManifestReader], keys: Sequence[int]) -> list[pa.Table]:
    """Per manifest all its entries, in order. Raises as `harness.metadata.iceberg.manifests.parse_manifest`.

    Args:
        readers: manifests that are open.
        keys: ids of the fields whose sizes are wanted.
    """
    found: dict[int, pa.Table] = {}
    batch = Batch()
    for number, reader in enumerate(readers):
        with contained(file=reader.manifest.path):
            blocks_ = Blocks.of(reader, number)
        if blocks_ is None:
            found[number] = _by_entry(reader, keys)
            continue
        if not batch.has_room(blocks_):
            found |= _decoded(batch, keys)
            batch = Batch()
        batch.add(blocks_)
    found |= _decoded(batch, keys)
    return [found[number] for number in sorted(found)]


def live(table: pa.Table) -> pa.Table:
    """Those of `recorded` that are not deleted."""
    status = table.column("status").to_numpy()
    return table if (status != Status.DELETED).all() else table.filter(pa.array(status != Status.DELETED))


def _decoded(batch: Batch, keys: Sequence[int]) -> dict[int, pa.Table]:
    """By number of the manifest."""
    found: dict[int, pa.Table] = {}
    try:
        walked = batch.walked(_slots())
        if walked is not None:
            walk, together = walked
            live_entries(walk)  # statuses are those that there are
            bounds = np.cumsum([0, *(sum(blocks_.counts) for blocks_ in together)]).tolist()
            for blocks_, (start, end) in zip(together, pairwise(bounds), strict=True):
                found[blocks_.number] = _of_walk(walk, np.arange(start, end), blocks_.reader, keys)
    except (Unsure, pa.ArrowInvalid, OverflowError):  # of ids in the list, too
        found = {}
    return found | {b.number: _by_entry(b.reader, keys) for b in batch.blocks if b.number not in found}


def _of_walk(found: Walk, places: Places, reader: ManifestReader, keys: Sequence[int]) -> pa.Table:
    def slot(name: str) -> tuple[Places, Mask]:
        values, stated = numbers(found, name)
        return values[places], stated[places]

    manifest = reader.manifest
    status, _ = slot("status")
    snapshots, has_snapshot = slot("snapshot_id")
    files, has_file = slot("file_sequence_number")
    inherited, is_known = inherited_sequence_number(status, manifest.sequence_number, reader.is_v1)
    order, has_order = slot("sort_order_id")
    sizes = counts(found, SIZES, keys, places)
    arrays = [
        from_numpy(status.astype(np.int32)),
        from_numpy(
            np.where(has_snapshot, snapshots, manifest.added_snapshot_id or 0),
            missing=~has_snapshot & np.full(len(places), manifest.added_snapshot_id is None),
        ),
        from_numpy(
            np.where(has_file, files, inherited),
            missing=~(has_file | is_known),
        ),
        from_numpy(order, missing=~has_order).cast(pa.int32()),
        lists(found, "split_offsets", places),
        *(from_numpy(values, missing=~known) for values, known in (sizes[key] for key in keys)),
    ]
    return pa.Table.from_arrays(arrays, schema=recorded_schema(keys))


def _by_entry(reader: ManifestReader, keys: Sequence[int]) -> pa.Table:
    with contained(file=reader.manifest.path):
        return of_entries(list(reader.entries(ALL, live_only=False)), keys)


def of_entries(entries: Sequence[ManifestEntry], keys: Sequence[int]) -> pa.Table:
    """Entries, which have all statistics, as `recorded` gives them."""
    columns: Mapping[str, list[object]] = {
        "status": [int(entry.status) for entry in entries],
        "snapshot_id": [_within(entry.snapshot_id, 64) for entry in entries],
        "file_sequence_number": [_within(entry.file_sequence_number, 64) for entry in entries],
        "sort_order_id": [_within(entry.file.sort_order_id, 32) for entry in entries],
        "split_offsets": [_offsets(entry.file.split_offsets) for entry in entries],
        **{f"{SIZES}.{key}": [_within((e.file.column_sizes or {}).get(key), 64) for e in entries] for key in keys},
    }
    schema = recorded_schema(keys)
    return pa.Table.from_arrays([array_of(columns[f.name], f.type) for f in schema], schema=schema)


def _offsets(offsets: Sequence[object] | None) -> list[int | None] | None:
    return None if not offsets else [_within(offset, 64) for offset in offsets]


def _within(number: object, bits: int) -> int | None:
    """A number that the column can hold; what else a manifest has there says nothing."""
    half = 1 << (bits - 1)
    return number if type(number) is int and -half <= number < half else None


def _slots() -> tuple[Slot, ...]:
    file = (
        PATH,
        Slot(140, "sort_order_id", "number"),
        Slot(132, "split_offsets", "numbers"),
        Slot(108, SIZES, "counts", pair=(117, 118)),
    )
    return (
        Slot(0, "status", "number"),
        Slot(1, "snapshot_id", "number"),
        Slot(4, "file_sequence_number", "number"),
        Slot(2, "data_file", "record", fields=file),
    )
