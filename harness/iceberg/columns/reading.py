"""Data manifests to columns: many manifests decoded in step, and those that are odd entry by entry.

Manifests with the same writer's schema go together, in batches that bound the memory. In step, the cost of a batch
grows with its longest block; entry by entry, with its entries. So manifests of a few long blocks are left out where
that is cheaper. Either way gives the same columns, and damage always gets the entry-wise decoder's error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise

import numpy as np

from harness.iceberg.columns.assembly import Part, assembled
from harness.iceberg.columns.blocks import Blocks
from harness.iceberg.columns.data_files import DataFiles, from_entries, schema_of
from harness.iceberg.columns.entries import walk_entries
from harness.iceberg.columns.kept import KeptManifests
from harness.iceberg.columns.layout import PATH, Slot, entry_steps
from harness.iceberg.columns.raw import Raw, encoded_counts, live_entries, raw_of
from harness.iceberg.columns.raw import joined as joined_raw
from harness.iceberg.columns.sifting import Sift, Sifted, joined
from harness.iceberg.columns.varints import Unsure
from harness.iceberg.columns.walk import MOST_ITEMS, Walk
from harness.iceberg.manifest_list import ManifestFile
from harness.iceberg.manifests import ManifestReader, open_manifest
from harness.iceberg.specs import PartitionSpec
from harness.limits import DEFAULT, Limits, contained
from harness.model.arrow_values import without_rows
from harness.model.schema import Schema
from harness.records import dataclass

_BATCH_BYTES = 12 << 20
_BATCH_ROWS = 1 << 15


def read_data_files(
    manifests: Sequence[ManifestFile],
    *,
    read: Callable[[ManifestFile], bytes],
    specs: Mapping[int, PartitionSpec],
    schemas: Sequence[Schema],
    statistics: Iterable[int],
    sift: Sift | None = None,
    limits: Limits = DEFAULT,
    kept: KeptManifests | None = None,
) -> Sifted:
    """The live data files of data manifests, in order.

    Args:
        read: the bytes of a manifest.
        specs, schemas, limits: as for `harness.iceberg.manifests.parse_manifest`.
        statistics: ids of the fields whose statistics are wanted.
        sift: tells which files to leave out; None: none.
        kept: what is known of manifests, so that these are not read. None: nothing, nor is anything kept.

    Raises:
        As `parse_manifest`.
    """
    fields = tuple(sorted(statistics))

    def opened(data: bytes, manifest: ManifestFile) -> ManifestReader:
        with contained(file=manifest.path):
            return open_manifest(data, manifest, specs=specs, schemas=schemas, limits=limits)

    def asked(number: int) -> ManifestReader:
        manifest = manifests[number]
        data = read(manifest)
        if kept is not None:
            kept.note_size(manifest.path, len(data))
        return opened(data, manifest)

    decoding = _Decoding(fields, sift, kept, asked)
    for number, manifest in enumerate(manifests):
        known = None if kept is None else kept.get(manifest.path, fields)
        if known is not None:
            header, raw = known
            decoding.recall(number, opened(header, manifest), raw)
            continue
        decoding.decode(number)
    return _named(decoding.finish(), manifests, fields)


def _named(found: Sequence[Sifted], manifests: Sequence[ManifestFile], fields: tuple[int, ...]) -> Sifted:
    schema = schema_of(fields)
    nothing = Sifted.of(DataFiles(without_rows(schema), (), (), fields), None)
    all_ = joined([nothing, *found])
    files = replace(all_.files, table=all_.files.table.cast(schema), manifests=[m.path for m in manifests])
    return replace(all_, files=files)


@dataclass(slots=True)
class _Decoding:
    """Manifests in batches of one schema: those to decode, and those that were known.

    open: reads a manifest, by its number. size, rows: of `blocks`, in bytes, and of `known`.
    """

    fields: tuple[int, ...]
    sift: Sift | None
    kept: KeptManifests | None
    open: Callable[[int], ManifestReader]
    found: list[Sifted] = field(default_factory=list)
    blocks: list[Blocks] = field(default_factory=list)
    known: list[tuple[Part, Raw]] = field(default_factory=list)
    size: int = 0
    rows: int = 0

    def decode(self, number: int) -> None:
        reader = self.open(number)
        with contained(file=reader.manifest.path):
            blocks_ = Blocks.of(reader, number)
        if blocks_ is None:
            self.found.append(_by_entry(reader, self.fields, number, self.sift))
            return
        batch, size = self.blocks, blocks_.size
        if batch and (blocks_.schema != batch[0].schema or self.size + size > _BATCH_BYTES):
            self._decode()
        batch.append(blocks_)
        self.size += size

    def recall(self, number: int, reader: ManifestReader, raw: Raw) -> None:
        part, batch = Part(number, reader, len(raw)), self.known
        schema = reader.container.header.metadata["avro.schema"]
        if batch and (
            schema != batch[0][0].reader.container.header.metadata["avro.schema"] or self.rows + len(raw) > _BATCH_ROWS
        ):
            self._recall()
        batch.append((part, raw))
        self.rows += len(raw)

    def finish(self) -> list[Sifted]:
        self._decode()
        self._recall()
        return self.found

    def _decode(self) -> None:
        self.found += decoded(self.blocks, self.fields, self.sift, self.kept)
        self.blocks.clear()
        self.size = 0

    def _recall(self) -> None:
        if not self.known:
            return
        parts = [part for part, _ in self.known]
        try:
            self.found.append(assembled(joined_raw([raw for _, raw in self.known]), parts, self.sift))
        except Unsure:
            self.found += [_by_entry(self.open(p.number), self.fields, p.number, self.sift) for p in parts]
        self.known.clear()
        self.rows = 0


def _by_entry(reader: ManifestReader, fields: tuple[int, ...], number: int, sift: Sift | None) -> Sifted:
    with contained(file=reader.manifest.path):
        files = from_entries(reader.entries(frozenset(fields)), fields, manifest=number)
    return Sifted.of(files, None if sift is None else sift(files))


def decoded(
    batch: Sequence[Blocks], fields: tuple[int, ...], sift: Sift | None, kept: KeptManifests | None
) -> list[Sifted]:
    """The files of a batch of manifests with the same schema."""
    if not batch:
        return []
    container = batch[0].reader.container
    has_steps = container.limits.items >= MOST_ITEMS
    steps = entry_steps(container.header.schema, entry_slots(fields)) if has_steps else None
    in_step: Sequence[Blocks] = ()
    found: list[Sifted] = []
    try:
        walked = None if steps is None else walk_entries(batch, steps)
        if walked is not None:
            found, in_step = [_in_step(*walked, fields, sift, kept)], walked[1]
    except Unsure:
        pass
    done = {blocks_.number for blocks_ in in_step}
    rest = (blocks_ for blocks_ in batch if blocks_.number not in done)
    return [*found, *(_by_entry(blocks_.reader, fields, blocks_.number, sift) for blocks_ in rest)]


def _in_step(
    found: Walk, batch: Sequence[Blocks], fields: tuple[int, ...], sift: Sift | None, kept: KeptManifests | None
) -> Sifted:
    live = live_entries(found)
    raw = raw_of(found, live, fields)
    entries = np.cumsum([0, *(sum(blocks_.counts) for blocks_ in batch)])
    starts = np.searchsorted(live, entries).tolist()
    parts = [
        Part(blocks_.number, blocks_.reader, end - start)
        for blocks_, (start, end) in zip(batch, pairwise(starts), strict=True)
    ]
    sifted = assembled(raw, parts, sift)
    if kept is not None:
        maps = encoded_counts(found, live)
        for part, start in zip(parts, starts, strict=False):
            container = part.reader.container
            kept.put(
                part.reader.manifest.path,
                container.data[: container.header.end],
                raw.slice(start, part.size),
                {name: values.slice(start, part.size) for name, values in maps.items()},
            )
    return sifted


def entry_slots(fields: tuple[int, ...]) -> tuple[Slot, ...]:
    """What to note of an entry, with the statistics of some fields."""
    file = (
        Slot(134, "content", "number"),
        PATH,
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
