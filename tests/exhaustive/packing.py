"""Many plans as one, so that Spark plans and compiles one read for hundreds of small tables.

    plan = packed([plan_of_a, plan_of_b])
    owners = spark.to_arrow(plan).column("_file")                # "0" of rows of a, "1" of rows of b

What the plans say of their files stays: each has its own partitions, sequence numbers and deletes. A delete that hits
all partitions becomes one for each partition of its plan, so that it does not reach into the others.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyroaring import BitMap64

from harness.metadata.model.schema import METADATA
from harness.metadata.plan.scan_plan import FILES, Counts, EqualityDelete, Partition, ScanPlan
from harness.storage.stores import Storage


def fingerprint(plan: ScanPlan) -> bytes:
    """Equal for plans that read the same bytes in the same way, whatever the directory is called."""
    files = plan.files.drop_columns(["physical", "size"]).to_pydict()
    contents = [_digest(path) for path in plan.files.column("physical").to_pylist()]
    deletes = [replace(d, path="", physical=_digest(d.physical)) for d in plan.equality_deletes]
    positions = [(d.offset, d.files, d.physical and _digest(d.physical)) for d in plan.position_deletes]
    if any(content is None for *_, content in positions):  # in the log
        positions += [(i, *bits) for i, bits in plan.load_positions(range(len(contents))).items()]
    read = (plan.columns, _where(plan), files, contents, plan.partitions, deletes, plan.delete_sets, positions)
    return hashlib.sha256(repr(read).encode()).digest()


def _digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _where(plan: ScanPlan) -> str | None:
    return None if plan.filter is None else plan.filter.sql


def likeness(plan: ScanPlan) -> object:
    """Equal for plans that can be packed together."""
    return repr((plan.format, plan.columns, _where(plan)))


def packed(plans: Sequence[ScanPlan]) -> ScanPlan:
    """The rows of all plans, which are alike, with the number of the plan as text in `_file`."""
    tables: list[pa.Table] = []
    partitions: list[Partition] = []
    deletes: list[EqualityDelete] = []
    sets: dict[tuple[int, ...], int] = {}
    owners: list[tuple[ScanPlan, int]] = []
    for number, plan in enumerate(plans):
        start = len(partitions)
        partitions += plan.partitions
        numbers = _Numbers(plan, start, deletes)
        rows = plan.files.to_pylist()
        for i, row in enumerate(rows):
            members = numbers.members(row["delete_set"], row["partition"])
            row |= {
                "path": str(number),
                "partition": start + row["partition"],
                "delete_set": sets.setdefault(members, len(sets)),
            }
            owners.append((plan, i))
        tables.append(pa.Table.from_pylist(rows, FILES))

    def load_positions(ordinals: Sequence[int]) -> Mapping[int, BitMap64]:
        own: dict[int, dict[int, int]] = {}
        for ordinal in ordinals:
            plan, i = owners[ordinal]
            own.setdefault(id(plan), {})[i] = ordinal
        known = {id(plan): plan for plan in plans}
        return {
            places[i]: bits for key, places in own.items() for i, bits in known[key].load_positions([*places]).items()
        }

    return replace(
        plans[0],
        table="many tables",
        columns=(*plans[0].columns, METADATA["_file"]),
        files=pa.concat_tables(tables),
        partitions=tuple(partitions),
        equality_deletes=tuple(deletes),
        delete_sets=tuple(sets),
        position_deletes=(),
        load_positions=load_positions,
        skipped=(),
        counts=Counts(),
        storage=Storage(),
        row_commit_versions=None,
        kept_whole=None,
    )


class _Numbers:
    """The numbers of one plan's deletes among those of all."""

    def __init__(self, plan: ScanPlan, start: int, deletes: list[EqualityDelete]) -> None:
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
