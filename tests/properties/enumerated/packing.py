"""Many plans combined into one, so that Spark plans and compiles one read for hundreds of small tables.

    plan = pack_plans([plan_of_a, plan_of_b])
    owners = spark.to_arrow(plan).column("_file")                # "0" for rows of a, "1" for rows of b

Everything that the plans record about their files stays: each has its own partitions, sequence numbers, and deletes. A
delete that applies to all partitions becomes one delete for each partition of its plan, so that it does not apply to
files of other plans.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from pyroaring import BitMap64

from harness.metadata.model.schema import METADATA
from harness.metadata.plan.deletes import (
    DatedDelete,
    DatedPositions,
    EqualityDelete,
    InlineVector,
    PositionDeletes,
    Vector,
    vectors_table,
)
from harness.metadata.plan.lifetimes import BEFORE, Lifetimes, RangeCommit, Span
from harness.metadata.plan.scan_plan import FILES, Counts, Partition, no_skipped_files
from harness.metadata.planned_scan import PlannedScan
from harness.storage.stores import Storage
from harness.writing.delta.files import bitmap_bytes, z85


def fingerprint(plan: PlannedScan) -> bytes:
    """Return a value that is equal for plans that read the same bytes in the same way, whatever their directory is."""
    files = plan.files.drop_columns(["physical", "size", "positions"]).to_pydict()
    contents = [_digest(path) for path in plan.files.column("physical").to_pylist()]
    deletes = [replace(d, path="", physical=_digest(d.physical)) for d in plan.equality_deletes]
    load = plan.load_positions if plan.lifetimes is None else plan.load_dated
    positions = [(i, [sorted(b) for b in _bitmaps(bits)]) for i, bits in load(range(len(contents))).items()]
    spans = [[delete.span for delete in _deletes(source)] for source in plan.position_deletes.sets]
    lives = plan.lifetimes, spans
    read = (
        plan.columns,
        _filter_of(plan),
        files,
        contents,
        plan.partitions,
        deletes,
        plan.delete_sets,
        positions,
        lives,
    )
    return hashlib.sha256(repr(read).encode()).digest()


def _bitmaps(loaded: BitMap64 | tuple[BitMap64, ...]) -> tuple[BitMap64, ...]:
    return loaded if isinstance(loaded, tuple) else (loaded,)


def _digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _filter_of(plan: PlannedScan) -> str | None:
    return None if plan.filter is None else plan.filter.sql


def plan_signature(plan: PlannedScan) -> object:
    """Return a value that is equal for plans that can be packed together."""
    lives = plan.lifetimes
    changes = None if lives is None else (lives.mode, lives.keys, lives.row_ids, plan.schema.fields)
    return repr((plan.format, plan.columns, _filter_of(plan), changes))


def pack_plans(plans: Sequence[PlannedScan]) -> PlannedScan:
    """Return a plan for the rows of all plans, with the number of the plan as text in `_file`.

    The plans must have equal signatures. Of plans of changes, each has its own commits, so the mode must be one that
    compares only rows of one commit.
    """
    tables: list[pa.Table] = []
    partitions: list[Partition] = []
    deletes: list[EqualityDelete] = []
    sets: dict[tuple[int, ...], int] = {}
    vectors: list[Vector] = []
    dated: list[DatedPositions] = []
    lifetimes = _PackedLifetimes()
    for number, plan in enumerate(plans):
        start = len(partitions)
        partitions += plan.partitions
        numbers = _Numbers(plan, start, deletes)
        rows = plan.files.to_pylist()
        deleted = plan.load_positions(range(len(rows))) if plan.lifetimes is None else {}
        sources = () if plan.lifetimes is None else lifetimes.positions(plan)
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
            if sources and sources[i].deletes:
                row["positions"] = len(dated)
                dated.append(sources[i])
        tables.append(pa.Table.from_pylist(rows, FILES))
        if plan.lifetimes is not None:
            lifetimes.add(plan.lifetimes, numbers.known)

    return replace(
        plans[0],
        table="many tables",
        columns=(*plans[0].columns, METADATA["_file"]),
        files=pa.concat_tables(tables),
        partitions=tuple(partitions),
        equality_deletes=tuple(deletes),
        delete_sets=tuple(sets),
        position_deletes=PositionDeletes(vectors=vectors_table(vectors), sets=tuple(dated)),
        lifetimes=lifetimes.packed(plans[0].lifetimes),
        skipped=no_skipped_files(),
        counts=Counts(),
        storage=Storage(),
        statistics=None,
    )


@dataclass
class _PackedLifetimes:
    """The lifetimes of plans, whose commits follow each other in the packed plan."""

    commits: list[RangeCommit] = field(default_factory=list)
    files: list[Span] = field(default_factory=list)
    equality_deletes: dict[int, Span] = field(default_factory=dict)

    def positions(self, plan: PlannedScan) -> list[DatedPositions]:
        """Return the position deletes of each file of the next plan."""
        loaded = plan.load_dated(range(plan.files.num_rows))
        sources = plan.position_deletes.sources(plan.files.column("positions").to_pylist())
        counts = plan.files.column("record_count").to_pylist()
        return [
            DatedPositions(
                tuple(
                    DatedDelete(_vector(bits, counts[i]), self._shifted(delete.span))
                    for bits, delete in zip(loaded.get(i, ()), _deletes(source), strict=True)
                )
            )
            for i, source in enumerate(sources)
        ]

    def add(self, lifetimes: Lifetimes, numbers: Mapping[tuple[int, int], int]) -> None:
        """Add the lifetimes of the next plan. `numbers` has the numbers of its deletes by their index and partition."""
        self.files += map(self._shifted, lifetimes.files)
        for (place, _), number in numbers.items():
            self.equality_deletes[number] = self._shifted(lifetimes.equality_deletes[place])
        self.commits += lifetimes.commits

    def packed(self, first: Lifetimes | None) -> Lifetimes | None:
        """Return the lifetimes of the packed plan. None if its plans have none."""
        if first is None:
            return None
        spans = tuple(self.equality_deletes[number] for number in range(len(self.equality_deletes)))
        return replace(first, commits=tuple(self.commits), files=tuple(self.files), equality_deletes=spans)

    def _shifted(self, span: Span) -> Span:
        start = len(self.commits)
        return Span(
            span.added if span.added == BEFORE else start + span.added,
            None if span.removed is None else start + span.removed,
        )


def _deletes(source: object) -> tuple[DatedDelete, ...]:
    return source.deletes if isinstance(source, DatedPositions) else ()


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
