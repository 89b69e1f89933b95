"""Every pair of a data file and a delete leaves the rows that the specification defines, in every shape of read.

All pairs are files of one table. Each pair has its own keys and partition. The first difference in the order of
`states` is reported.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pairs import COLUMNS, PairFiles, write_pairs
from reading import Rows, difference, rows_of
from states import KINDS, PairState, all_states, is_overlooked, is_refused, remaining_rows

from harness.errors import CorruptDeleteError
from harness.suite.oracle_engine import read_with_oracle
from harness.table import open_table

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Shape:
    """A shape of read.

    Attributes:
        where: The filter in SQL.
        keeps: The same filter in Python.
    """

    columns: tuple[str, ...]
    where: str | None
    keeps: Callable[[dict[str, Any]], bool]

    def rows(self, rows: Iterable[dict[str, Any]]) -> Rows:
        return [tuple(row[name] for name in self.columns) for row in rows if self.keeps(row)]

    def __str__(self) -> str:
        return f"SELECT {', '.join(self.columns)}" + ("" if self.where is None else f" WHERE {self.where}")


FILTERS: tuple[tuple[str | None, Callable[[dict[str, Any]], bool]], ...] = (
    (None, lambda row: True),
    ("k > 0 OR k IS NULL", lambda row: row["k"] is None or row["k"] > 0),
    ("o = 1", lambda row: row["o"] == 1),
)
SHAPES = [Shape(columns, *filter_) for columns in (tuple(COLUMNS), ("r",)) for filter_ in FILTERS]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> PairFiles:
    return write_pairs(all_states(KINDS), tmp_path_factory.mktemp("states"))


@pytest.mark.parametrize("version", [2, 3])
def test_every_pair_leaves_the_rows_that_the_specification_says(version, files, engines, record_property) -> None:
    """Each table contains some dozen pairs. Iceberg 3 is read in all shapes; Iceberg 2, and the slow oracle, in two."""
    asked = {"duckdb": SHAPES, "oracle": SHAPES[::5]} if version > 2 else {"duckdb": SHAPES[::5]}
    reads: Counter[str] = Counter()
    for states in _blocks(version, files):
        address = files.table_of(states, version)
        for engine in (e for e in engines if e in asked):
            if engine == "oracle" and is_overlooked(states[0]):
                continue  # the oracle detects them
            reads[engine] += len(states) * len(asked[engine])
            _check(files, states, version, engine, address, asked[engine])
    pairs = sum(map(len, _blocks(version, files)))
    record_property(
        "read", f"iceberg-{version}: {pairs} pairs of data file and delete, some dozen a table, {_summary(reads)}"
    )


def test_all_pairs_leave_their_rows_in_one_table(files, engines, record_property) -> None:
    asked = {"duckdb": SHAPES[:1], "spark": SHAPES}
    states = [state for block in _blocks(3, files) for state in block if not _hits_all_nulls(state)]
    address = files.table_of(states, 3)
    reads: Counter[str] = Counter()
    for engine in (e for e in engines if e in asked):
        reads[engine] += len(states) * len(asked[engine])
        _check(files, states, 3, engine, address, asked[engine])
    record_property("read", f"iceberg-3: {len(states)} pairs of data file and delete in one table, {_summary(reads)}")


def test_pairs_that_contradict_each_other_are_refused(files, engines, record_property) -> None:
    """A delete that names a data file and must not apply to it is an error, see `states.is_refused`."""
    refused = [state for state in files.handles if is_refused(state)]
    for state in refused:
        address = files.table_of([state], 3)
        for engine in (e for e in engines if e != "spark"):  # Spark uses the same plans as DuckDB
            try:
                got = _read(engine, address, SHAPES[0])
            except CorruptDeleteError:
                continue
            pytest.fail(f"{state}: {engine} reads {rows_of(got)}, and should refuse it")
    record_property("read", f"iceberg-3: {len(refused)} pairs of data file and delete are refused")


def _blocks(version: int, files: PairFiles) -> Iterator[list[PairState]]:
    """Yield states that can be in one table of the version: with one sequence number, kind, and spec."""
    kinds = [kind for kind in KINDS if version > 2 or kind != "vector"]
    chosen = [state for state in files.handles if state.kind in kinds and not is_refused(state)]
    groups: dict[object, list[PairState]] = {}
    for state in chosen:
        # Deletes of all rows without a key are separated by the property that might keep them from applying to a file.
        apart = (state.nulls, state.delete_bounds) if _hits_all_nulls(state) else None
        groups.setdefault((state.sequence, state.kind, state.spec, is_overlooked(state), apart), []).append(state)
    return iter(groups.values())


def _hits_all_nulls(state: PairState) -> bool:
    return state.kind == "equality" and state.spec == "none" and state.delete_key[0] is None


def _check(
    files: PairFiles, states: Sequence[PairState], version: int, engine: str, address: str, shapes: Sequence[Shape]
) -> None:
    """Fail with the first pair whose rows differ from the expected ones. `address` is the table with all pairs."""
    rows = list(remaining_rows(states))
    for shape in shapes:
        try:
            got = rows_of(_read(engine, address, shape))
        except Exception as error:
            if len(states) == 1:
                pytest.fail(f"iceberg-{version}: {states[0]}: {engine} {type(error).__name__}: {error}, of {shape}")
            for state in states:
                _check(files, [state], version, engine, files.table_of([state], version), [shape])
            raise
        if difference(got, shape.rows(rows)) is not None:
            pytest.fail(_report(files, states, version, engine, shape, got, shape.rows(rows)))


def _read(engine: str, address: str, shape: Shape) -> pa.Table:
    if engine == "oracle":
        return read_with_oracle(address, columns=shape.columns, where=shape.where)
    return open_table(address).snapshot().to_arrow(columns=shape.columns, where=shape.where, engine=engine)


def _report(
    files: PairFiles, states: Sequence[PairState], version: int, engine: str, shape: Shape, got: Rows, expected: Rows
) -> str:
    """Return the first pair whose rows differ, and a table that shows it alone."""
    wrong = Counter(expected)
    wrong.subtract(got)
    numbers = sorted({row[0] // 3 for row, count in wrong.items() if count})
    state = next(state for state in states if state.number == numbers[0])
    own = [row for row in expected if row[0] // 3 == state.number]
    place = files.table_of([state], version)
    problem = difference([row for row in got if row[0] // 3 == state.number], own)
    return (
        f"iceberg-{version}: {state}: {engine} {problem}, of {shape}"
        f"\n{len(numbers)} of {len(states)} pairs differ; a table of this one: {place}"
    )


def _summary(reads: Counter[str]) -> str:
    return "read by " + ", ".join(f"{engine}: {count}" for engine, count in reads.items())
