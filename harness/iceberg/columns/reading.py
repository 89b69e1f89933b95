"""Data manifests to columns: many manifests decoded in step, and those that are odd entry by entry.

Manifests with the same writer's schema go together, in batches that bound the memory. In step, the cost of a batch
grows with its longest block; entry by entry, with its entries. So manifests of a few long blocks are left out where
that is cheaper. Either way gives the same columns, and damage always gets the entry-wise decoder's error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from harness.errors import HarnessError
from harness.files.ocf import blocks
from harness.iceberg.columns.assembly import Part, assembled
from harness.iceberg.columns.data_files import DataFiles, from_entries, schema_of
from harness.iceberg.columns.layout import Slot, entry_step
from harness.iceberg.columns.sifting import Sift, Sifted
from harness.iceberg.columns.varints import Unsure, Varints
from harness.iceberg.columns.walk import MOST_ITEMS, walk
from harness.iceberg.manifest_list import ManifestFile
from harness.iceberg.manifests import ManifestReader, open_manifest
from harness.iceberg.specs import PartitionSpec
from harness.limits import DEFAULT, Limits, contained
from harness.model.arrow_values import without_rows
from harness.model.schema import Schema

_BATCH_BYTES = 64 << 20
_ENTRY_NS = 40_000
_ROUND_NS = 600_000
"""What an entry costs on its own, and what a round costs, which takes the next entry of every block: measured."""


def read_data_files(
    manifests: Sequence[ManifestFile],
    *,
    read: Callable[[ManifestFile], bytes],
    specs: Mapping[int, PartitionSpec],
    schemas: Sequence[Schema],
    statistics: Iterable[int],
    sift: Sift | None = None,
    limits: Limits = DEFAULT,
) -> Sifted:
    """The live data files of data manifests, in order.

    Args:
        read: the bytes of a manifest.
        specs, schemas, limits: as for `harness.iceberg.manifests.parse_manifest`.
        statistics: ids of the fields whose statistics are wanted.
        sift: tells which files to leave out; None: none.

    Raises:
        As `parse_manifest`.
    """
    fields = tuple(sorted(statistics))
    slots = entry_slots(fields)
    found: list[Sifted] = []
    batch: list[_Blocks] = []
    for number, manifest in enumerate(manifests):
        data = read(manifest)
        with contained(file=manifest.path):
            reader = open_manifest(data, manifest, specs=specs, schemas=schemas, limits=limits)
            blocks_ = _Blocks.of(reader, number)
        if batch and (
            blocks_ is None
            or blocks_.schema != batch[0].schema
            or sum(b.size for b in batch) + blocks_.size > _BATCH_BYTES
        ):
            found += _decoded(batch, slots, fields, sift)
            batch = []
        if blocks_ is None:
            found.append(_by_entry(reader, fields, number, sift))
        else:
            batch.append(blocks_)
    found += _decoded(batch, slots, fields, sift)
    return _joined(found, [manifest.path for manifest in manifests], fields)


def entry_slots(fields: tuple[int, ...]) -> tuple[Slot, ...]:
    """What to note of an entry, with the statistics of some fields."""
    file = (
        Slot(134, "content", "number"),
        Slot(100, "file_path", "text"),
        Slot(101, "file_format", "text"),
        Slot(102, "partition", "record"),
        Slot(103, "record_count", "number"),
        Slot(104, "file_size_in_bytes", "number"),
        Slot(131, "key_metadata", "bytes"),
        Slot(142, "first_row_id", "number"),
    )
    maps = (
        Slot(109, "value_counts", "counts", pair=(119, 120)),
        Slot(110, "null_value_counts", "counts", pair=(121, 122)),
        Slot(137, "nan_value_counts", "counts", pair=(138, 139)),
        Slot(125, "lower_bounds", "bounds", pair=(126, 127), keys=fields),
        Slot(128, "upper_bounds", "bounds", pair=(129, 130), keys=fields),
    )
    return (
        Slot(0, "status", "number"),
        Slot(3, "sequence_number", "number"),
        Slot(2, "data_file", "record", fields=(*file, *(maps if fields else ()))),
    )


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The plain blocks of a manifest: how many entries each has, and its bytes."""

    number: int
    reader: ManifestReader
    counts: tuple[int, ...]
    data: tuple[bytes, ...]

    @staticmethod
    def of(reader: ManifestReader, number: int) -> _Blocks | None:
        """None: a block is damaged, or they are too many or too long to be held at once."""
        container, limits = reader.container, reader.container.limits
        plain = blocks(container.data, container.header, file=container.file, cause="CorruptManifest", limits=limits)
        found: list[tuple[int, bytes]] = []
        entries = size = 0
        try:
            for count, data in plain:
                found.append((count, data))
                entries, size = entries + count, size + len(data)
                if entries > len(container.data) + limits.spare_records or size > limits.block_bytes:
                    return None
        except HarnessError:
            return None
        return _Blocks(number, reader, tuple(count for count, _ in found), tuple(data for _, data in found))

    @property
    def schema(self) -> bytes:
        return self.reader.container.header.metadata["avro.schema"]

    @property
    def size(self) -> int:
        return sum(map(len, self.data))

    @property
    def longest(self) -> int:
        return max(self.counts, default=0)

    def by_entry(self, fields: tuple[int, ...], sift: Sift | None) -> Sifted:
        return _by_entry(self.reader, fields, self.number, sift)


def _by_entry(reader: ManifestReader, fields: tuple[int, ...], number: int, sift: Sift | None) -> Sifted:
    with contained(file=reader.manifest.path):
        files = from_entries(reader.entries(frozenset(fields)), fields, manifest=number)
    return Sifted.of(files, None if sift is None else sift(files))


def _decoded(
    batch: list[_Blocks], slots: tuple[Slot, ...], fields: tuple[int, ...], sift: Sift | None
) -> Iterator[Sifted]:
    """The files of a batch of manifests with the same schema."""
    if not batch:
        return
    container = batch[0].reader.container
    step = entry_step(container.header.schema, slots) if container.limits.items >= MOST_ITEMS else None
    in_step = _worth_it(batch) if step is not None else frozenset()
    together = [blocks_ for blocks_ in batch if blocks_.number in in_step]
    try:
        parts = {} if step is None or not together else _in_step(together, step, fields, sift)
    except Unsure:
        parts = {}
    for blocks_ in batch:
        yield parts[blocks_.number] if blocks_.number in parts else blocks_.by_entry(fields, sift)


def _worth_it(batch: Sequence[_Blocks]) -> frozenset[int]:
    """The manifests to decode in step, so that the whole costs least."""
    ordered = sorted(batch, key=lambda blocks_: blocks_.longest)
    total = sum(sum(blocks_.counts) for blocks_ in batch)
    best, chosen, done = total * _ENTRY_NS, 0, 0
    for place, blocks_ in enumerate(ordered, start=1):
        done += sum(blocks_.counts)
        cost = blocks_.longest * _ROUND_NS + (total - done) * _ENTRY_NS
        if cost <= best:
            best, chosen = cost, place
    return frozenset(blocks_.number for blocks_ in ordered[:chosen])


def _in_step(batch: Sequence[_Blocks], step: Any, fields: tuple[int, ...], sift: Sift | None) -> dict[int, Sifted]:
    """The files of each manifest, by its number."""
    data = [block for blocks_ in batch for block in blocks_.data]
    sizes = np.array([len(block) for block in data], dtype=np.int64)
    counts = np.array([count for blocks_ in batch for count in blocks_.counts], dtype=np.int64)
    ends = np.cumsum(sizes)
    if (counts < 0).any() or (counts > sizes).any() or (len(ends) and int(ends[-1]) >= 1 << 31):
        raise Unsure
    varints = Varints.of(data)
    found = walk(varints, step, ends - sizes, counts, ends)
    parts = [Part(blocks_.number, blocks_.reader, sum(blocks_.counts)) for blocks_ in batch]
    return assembled(found, parts, fields, sift)


def _joined(found: Sequence[Sifted], manifests: Sequence[str], fields: tuple[int, ...]) -> Sifted:
    """All files, with the partition tuples of all manifests in one list."""
    tuples: list[Mapping[int, Any]] = []
    parts = [Sifted.of(DataFiles(without_rows(schema_of(fields)), (), (), fields), None)]
    for part in found:
        if part.files.tuples:
            parts.append(part.shifted(len(tuples)))
            tuples += part.files.tuples
    files = pa.concat_tables([part.files.table for part in parts]).cast(schema_of(fields))
    return Sifted(DataFiles(files, manifests, tuples, fields), pa.concat_tables([part.left_out for part in parts]))
