"""Verdicts: whether what a read of a mutant came to is fine.

Fine is: the rows of the table as it was, a HarnessError, or other rows where the oracle, which plans and reads by
itself, gives the same. Filters skip files by statistics, which nobody can check: where those were changed, rows that
only a read without skipping finds are fine too, and no row may come that such a read does not have.
"""

from __future__ import annotations

import enum
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow.parquet as pq
from fuzz_reading import Leaked, Outcome, Refused, Rows


class Kind(enum.Enum):
    """What became of a mutant; all from WRONG on are findings."""

    SAME = "same rows"
    REFUSED = "HarnessError"
    OTHER = "other rows, agreed"
    TOLERATED = "rows, known dispute"
    UNJUDGED = "rows, the judge died"
    SKIPPED = "agreed without skipping"
    WRONG = "WRONG ROWS"
    DISPUTED = "DISPUTED ROWS"
    LEAK = "OTHER EXCEPTION"
    SOCKET = "SOCKET"
    CRASH = "CRASH"
    TIME = "TIME"
    MEMORY = "MEMORY"

    @property
    def is_finding(self) -> bool:
        """Whether harness did what it must not."""
        return self not in _FINE


_FINE = (Kind.SAME, Kind.REFUSED, Kind.OTHER, Kind.SKIPPED, Kind.TOLERATED, Kind.UNJUDGED)


KNOWN_DISPUTES = {
    "PartitionValueConflict": "one file of each group is held against its partition; the oracle reads all",
    "does not fit decimal(": "DuckDB does not count the digits of a decimal that is stored as an integer",
    "Cannot decode parquet file": "damage in Parquet that Arrow sees and DuckDB does not; see the register of traps",
}
"""Words of the oracle where it refuses what DuckDB reads, and why that is left so."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """signature: alike for findings that one change of harness would mend, as far as that can be told."""

    kind: Kind
    detail: str = ""
    signature: str = ""


def judged(
    outcome: Outcome,
    original: Outcome,
    oracle: Callable[[], Iterable[Outcome | None]],
    unpruned: Callable[[], Outcome],
) -> Verdict:
    """The verdict on one read.

    outcome, original: what DuckDB gives of the mutant, and of the table before.
    oracle: called if there are rows: what the oracle gives of the mutant; more than one, where the table says the same
        thing in several places, and no reader can tell which of them lies. None: it does not plan such a read.
    unpruned: called where it is needed: DuckDB without skipping.
    """
    match outcome:
        case Leaked("MemoryError"):
            return Verdict(Kind.MEMORY, str(outcome), f"memory {outcome.place}")
        case Leaked():
            return Verdict(Kind.LEAK, str(outcome), f"leak {outcome.kind} {outcome.place}")
        case Refused():
            return Verdict(Kind.REFUSED)
        case Rows():
            return _judged_rows(outcome, original, oracle(), unpruned)


def is_torn(data: bytes | None) -> bool:
    """Whether bytes are a Parquet file whose footer contradicts itself, so that readers count its rows differently."""
    if data is None or data[:4] != b"PAR1":
        return False
    try:
        footer = pq.read_metadata(io.BytesIO(data))
        groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
        flat = [i for i in range(footer.num_columns) if footer.schema.column(i).max_repetition_level == 0]
        counts = {group.num_rows == group.column(i).num_values for group in groups for i in flat}
        return False in counts or sum(group.num_rows for group in groups) != footer.num_rows
    except Exception:  # Arrow does not read it, which is another matter
        return False


def _judged_rows(
    rows: Rows, original: Outcome, judges: Iterable[Outcome | None], unpruned: Callable[[], Outcome]
) -> Verdict:
    first: Verdict | None = None
    every: Outcome | None = None
    for judge in judges:
        if judge is None or judge == rows or (rows == original and not isinstance(judge, Rows)):
            return Verdict(Kind.SAME if rows == original else Kind.OTHER)
        every = every or unpruned()
        if _is_skipping(rows, every, judge):
            return Verdict(Kind.SKIPPED)
        told = f"DuckDB: {rows}; before: {original}; oracle: {judge}"
        first = first or (
            Verdict(Kind.WRONG, f"{told}; {_differing(rows, judge)}", "wrong")
            if isinstance(judge, Rows)
            else _disputed(judge, told)
        )
    assert first is not None
    return first


def _disputed(judge: Refused | Leaked, told: str) -> Verdict:
    """The verdict where the oracle refuses, or fails, and DuckDB has other rows than before."""
    if any(words in str(judge) for words in KNOWN_DISPUTES):
        return Verdict(Kind.TOLERATED)
    cause = re.search(r"\[(\w+)", str(judge))
    return Verdict(Kind.DISPUTED, told, f"disputed {cause[1] if cause else judge}")


def _is_skipping(rows: Rows, every: Outcome, judge: Outcome) -> bool:
    """Whether the rows are those of a right read that skipped more than it should, led astray by statistics."""
    if not isinstance(judge, Rows):
        return isinstance(every, Refused)  # of a file that was skipped
    return every == judge


def _differing(rows: Rows, judge: Rows) -> str:
    if rows.types != judge.types:
        return f"types {rows.types} and {judge.types}"
    more, less = list((rows.counts - judge.counts).elements()), list((judge.counts - rows.counts).elements())
    return f"only of DuckDB {more[:3]}, only of the oracle {less[:3]}".replace("\x1f", " | ")
