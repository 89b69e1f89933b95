"""The plain blocks of manifests, and which manifests are worth decoding in step."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import HarnessError
from harness.files.ocf import blocks
from harness.iceberg.manifests import ManifestReader
from harness.records import dataclass

_ENTRY_NS = 40_000
_ROUND_NS = 600_000
"""What an entry costs on its own, and what a round costs, which takes the next entry of every block: measured."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The plain blocks of a manifest: how many entries each has, and its bytes."""

    number: int
    reader: ManifestReader
    counts: tuple[int, ...]
    data: tuple[bytes, ...]

    @staticmethod
    def of(reader: ManifestReader, number: int) -> Blocks | None:
        """None: a block is damaged, they are too many or too long to be held at once, or each entry is to be judged."""
        if reader.is_disputed:
            return None
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
        return Blocks(number, reader, tuple(count for count, _ in found), tuple(data for _, data in found))

    @property
    def schema(self) -> bytes:
        """The writer's, as it is written."""
        return self.reader.container.header.metadata["avro.schema"]

    @property
    def size(self) -> int:
        """Bytes of all blocks."""
        return sum(map(len, self.data))

    @property
    def longest(self) -> int:
        """The most entries of a block."""
        return max(self.counts, default=0)


def worth_it(batch: Sequence[Blocks]) -> frozenset[int]:
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
