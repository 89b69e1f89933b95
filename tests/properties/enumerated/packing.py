"""Many plans combined into one, so that Spark plans and compiles one read for hundreds of small tables.

    plan = pack_plans([plan_of_a, plan_of_b])
    owners = spark.to_arrow(plan).column("_file")                # "0" for rows of a, "1" for rows of b

Everything that the plans record about their files stays: each has its own partitions, sequence numbers, and deletes. A
delete that applies to all partitions becomes one delete for each partition of its plan, so that it does not apply to
files of other plans.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyroaring import BitMap64

from harness.metadata.model.schema import METADATA
from harness.metadata.plan.deletes import EqualityDelete, InlineVector, PositionDeletes, Vector, vectors_table
from harness.metadata.plan.scan_plan import FILES, Counts, Partition, no_skipped_files
from harness.metadata.planned_scan import PlannedScan
from harness.storage.stores import Storage
from harness.writing.delta.files import bitmap_bytes, z85


def fingerprint(plan: PlannedScan) -> bytes:
    """Return a value that is equal for plans that read the same bytes in the same way, whatever their directory is."""
    files = plan.files.drop_columns(["physical", "size", "positions"]).to_pydict()
    contents = [_digest(path) for path in plan.files.column("physical").to_pylist()]
    deletes = [replace(d, path="", physical=_digest(d.physical)) for d in plan.equality_deletes]
    positions = [(i, *bits) for i, bits in plan.load_positions(range(len(contents))).items()]
    read = (plan.columns, _filter_of(plan), files, contents, plan.partitions, deletes, plan.delete_sets, positions)
    return hashlib.sha256(repr(read).encode()).digest()


def _digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _filter_of(plan: PlannedScan) -> str | None:
    return None if plan.filter is None else plan.filter.sql


def plan_signature(plan: PlannedScan) -> object:
    """Return a value that is equal for plans that can be packed together."""
    return repr((plan.format, plan.columns, _filter_of(plan)))


def pack_plans(plans: Sequence[PlannedScan]) -> PlannedScan:
    """Return a plan for the rows of all plans, with the number of the plan as text in `_file`.

    The plans must have equal signatures.
    """
    tables: list[pa.Table] = []
    partitions: list[Partition] = []
    deletes: list[EqualityDelete] = []
    sets: dict[tuple[int, ...], int] = {}
    vectors: list[Vector] = []
    for number, plan in enumerate(plans):
        start = len(partitions)
        partitions += plan.partitions
        numbers = _Numbers(plan, start, deletes)
        rows = plan.files.to_pylist()
        deleted = plan.load_positions(range(len(rows)))
        for i, row in enumerate(rows):
            members = numbers.members(row["delete_set"], row["partition"])
            row |= {
                "path": str(number),
                "partition": start + row["partition"],
                "delete_set": sets.setdefault(members, len(sets)),
                "positions": len(vectors) if i in deleted else None,
            }
            if i in deleted:
                vectors.append(_vector(deleted[i], row["record_count"]))
        tables.append(pa.Table.from_pylist(rows, FILES))

    return replace(
        plans[0],
        table="many tables",
        columns=(*plans[0].columns, METADATA["_file"]),
        files=pa.concat_tables(tables),
        partitions=tuple(partitions),
        equality_deletes=tuple(deletes),
        delete_sets=tuple(sets),
        position_deletes=PositionDeletes(vectors=vectors_table(vectors)),
        skipped=no_skipped_files(),
        counts=Counts(),
        storage=Storage(),
        statistics=None,
    )


def _vector(deleted: BitMap64, record_count: int | None) -> InlineVector:
    """Return the deleted positions of a file as a vector.

    Positions after the end of the file are dropped: they delete nothing, and are an error in a vector.
    """
    within = [position for position in deleted if record_count is None or position < record_count]
    data = bitmap_bytes(within, "portable")
    return InlineVector(text=z85(data), length=len(data), record_count=len(within))


class _Numbers:
    """The numbers that one plan's deletes have in the packed plan."""

    def __init__(self, plan: PlannedScan, start: int, deletes: list[EqualityDelete]) -> None:
        self.plan, self.start, self.deletes = plan, start, deletes
        self.known: dict[tuple[int, int], int] = {}

    def members(self, delete_set: int, partition: int) -> tuple[int, ...]:
        return tuple(sorted(self._number(delete, partition) for delete in self.plan.delete_sets[delete_set]))

    def _number(self, place: int, partition: int) -> int:
        delete = self.plan.equality_deletes[place]
        scope = partition if delete.partition is None else delete.partition
        if (place, scope) not in self.known:
            self.known[place, scope] = len(self.deletes)
            self.deletes.append(replace(delete, partition=self.start + scope))
        return self.known[place, scope]
