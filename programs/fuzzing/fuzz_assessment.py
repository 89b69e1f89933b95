"""Assessment of the outcome of reading a mutant.

An outcome is fine if it is the original rows, a HarnessError, or other rows that the oracle, which plans and reads
independently, returns as well. Filters skip files by statistics, which cannot be verified. Therefore, if statistics
were changed, it is also fine if rows are missing that only a read without skipping finds. Additional rows are never
fine.
"""

import enum
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fuzz_reading import Leak, Outcome, ReadRows, Refusal


class OutcomeKind(enum.Enum):
    """The kinds of outcomes. All from WRONG on are findings."""

    SAME = "same rows"
    REFUSED = "HarnessError"
    OTHER = "other rows, agreed"
    COMPARED = "other plan, reported"
    TOLERATED = "rows, known dispute"
    UNCONFIRMED = "rows, the oracle died"
    SKIPPED = "agreed without statistics"
    WRONG = "WRONG ROWS"
    UNREPORTED = "OTHER PLAN, NOT REPORTED"
    DISPUTED = "DISPUTED ROWS"
    LEAK = "OTHER EXCEPTION"
    INTERNAL = "INTERNAL ERROR OF DUCKDB"
    SOCKET = "SOCKET"
    NEIGHBOR = "NEIGHBOUR HARMED"
    UNTRUSTED = "UNTRUSTED, SKIPPED"
    CRASH = "CRASH"
    TIME = "TIME"
    MEMORY = "MEMORY"

    @property
    def is_finding(self) -> bool:
        """Whether the outcome is a fault of harness."""
        return self not in _FINE


_INTERNAL = re.compile(r"INTERNAL Error|FATAL Error|invalidated|ends its instance|gave up the instance", re.IGNORECASE)
"""Internal errors of DuckDB, after which its instance cannot be used."""
_FINE = (
    OutcomeKind.SAME,
    OutcomeKind.REFUSED,
    OutcomeKind.OTHER,
    OutcomeKind.COMPARED,
    OutcomeKind.SKIPPED,
    OutcomeKind.TOLERATED,
    OutcomeKind.UNCONFIRMED,
)


KNOWN_DISPUTES = {
    "PartitionValueConflict": "one file of each group is held against its partition; the oracle reads all",
    "does not fit decimal(": "DuckDB does not count the digits of a decimal that is stored as an integer",
    "Cannot decode parquet file": "damage in Parquet that Arrow sees and DuckDB does not; see the register of traps",
    "Integers with more than 64 bits": "of the Arrow schema in a footer, which Arrow obeys and DuckDB passes over",
    "a block of items does not have its declared length": "in a manifest, of what harness passes over by that length",
    "is no field id": "in the schema of a manifest, of a map that a read without a filter passes over",
    "has no inCommitTimestamp in a first commitInfo": "of versions that a read by time need not look at",
    "In-commit timestamps do not increase": "the same",
    "a data file is live with two deletion vectors": "of a change feed, whose commits are not replayed to the end",
    "Missing partitionValues": "of a checkpoint without that column, where a table has no partitions",
}
"""Texts of errors with which the oracle refuses what DuckDB reads, and the reason why that is accepted."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """The assessment of an outcome. Findings with the same signature probably have the same cause."""

    kind: OutcomeKind
    detail: str = ""
    signature: str = ""


def assess_read(
    outcome: Outcome,
    original: Outcome,
    oracle: Callable[[], Iterable[Outcome]],
    careful: Callable[[], Iterable[Outcome]],
) -> Assessment:
    """Assess one read.

    Args:
        outcome: DuckDB's outcome for the mutant.
        original: DuckDB's outcome for the original table.
        oracle: A function that is called if there are rows, and returns the oracle's outcomes for the mutant. There are
            several if the table stores the same information in several places, and readers cannot tell which of them is
            wrong.
        careful: A function that is called if needed, and returns DuckDB's outcomes without skipping by the table's
            statistics, and without skipping by those in data files.
    """
    if isinstance(outcome, ReadRows):
        return _assess_rows(outcome, original, oracle(), careful)
    return without_rows(outcome)


def without_rows(outcome: Refusal | Leak) -> Assessment:
    """Assess a read that returned no rows."""
    match outcome:
        case Leak("MemoryError"):
            return Assessment(OutcomeKind.MEMORY, str(outcome), f"memory {outcome.place}")
        case Leak():
            return Assessment(OutcomeKind.LEAK, str(outcome), f"leak {outcome.kind} {outcome.place}")
        case Refusal() if _INTERNAL.search(str(outcome)):
            return Assessment(OutcomeKind.INTERNAL, str(outcome), f"internal {_NUMBERS.sub('n', str(outcome))[:80]}")
        case _:
            return Assessment(OutcomeKind.REFUSED)


def assess_untrusted(skipping: Outcome, careful: Outcome) -> Assessment | None:
    """Assess two reads of an untrusted table, with and without skipping.

    Return None if they agree, or if one is refused.
    """
    if isinstance(skipping, ReadRows) and isinstance(careful, ReadRows) and skipping != careful:
        detail = f"skipping: {skipping}; without: {careful}; {_differing(skipping, careful)}"
        return Assessment(OutcomeKind.UNTRUSTED, detail, "untrusted")
    return None


def _assess_rows(
    rows: ReadRows, original: Outcome, references: Iterable[Outcome], careful: Callable[[], Iterable[Outcome]]
) -> Assessment:
    first: Assessment | None = None
    for reference in references:
        if reference == rows or (rows == original and not isinstance(reference, ReadRows)):
            return Assessment(OutcomeKind.SAME if rows == original else OutcomeKind.OTHER)
        # A careful read that agrees with another view of the table proves nothing.
        if first is None and any(_is_careful(other, reference) for other in careful()):
            return Assessment(OutcomeKind.SKIPPED)
        assessment = _disagreement(rows, original, reference)
        if assessment.kind is OutcomeKind.TOLERATED:
            return assessment
        first = first or assessment
    assert first is not None
    return first


def _is_careful(careful: Outcome, reference: Outcome) -> bool:
    """Return whether a read that ignores statistics agrees with the oracle, which includes that both refuse."""
    return careful == reference or (isinstance(careful, Refusal) and not isinstance(reference, ReadRows))


def _disagreement(rows: ReadRows, original: Outcome, reference: Outcome) -> Assessment:
    detail = f"DuckDB: {rows}; before: {original}; oracle: {reference}"
    if isinstance(reference, ReadRows) and _differ_by_wrapping(rows, reference):
        return Assessment(OutcomeKind.TOLERATED)
    if isinstance(reference, ReadRows):
        return Assessment(OutcomeKind.WRONG, f"{detail}; {_differing(rows, reference)}", "wrong")
    if any(words in str(reference) for words in KNOWN_DISPUTES):
        return Assessment(OutcomeKind.TOLERATED)
    cause = re.search(r"\[(\w+)", str(reference))
    return Assessment(OutcomeKind.DISPUTED, detail, f"disputed {cause[1] if cause else reference}")


_WRAPPED_US = 2**64 // 1000
_NUMBERS = re.compile(r"('-?\d+(?:\.\d+)?'|-?\d+)")


def _differ_by_wrapping(rows: ReadRows, reference: ReadRows) -> bool:
    """Return whether only numbers differ, in ways that readers need not detect.

    INT96 with a negative time of day: Arrow reads it as unsigned. A decimal with more digits than its footer declares,
    in integer storage: DuckDB keeps only the bytes that the declared digits need, at least two.
    """
    more, less = (
        sorted((rows.counts - reference.counts).elements()),
        sorted((reference.counts - rows.counts).elements()),
    )
    if rows.types != reference.types or len(more) != len(less):
        return False
    return all(map(_is_wrapped, more, less))


def _is_wrapped(row: str, other: str) -> bool:
    parts, others = _NUMBERS.split(row), _NUMBERS.split(other)
    return len(parts) == len(others) and all(
        part == two or (_NUMBERS.fullmatch(part) and _NUMBERS.fullmatch(two) and _wraps(part, two))
        for part, two in zip(parts, others, strict=True)
    )


def _wraps(number: str, other: str) -> bool:
    """Return whether a number differs by wrapping around. Decimals are quoted in the texts of rows."""
    difference = int(re.sub(r"['.]", "", other)) - int(re.sub(r"['.]", "", number))
    return difference % 2**16 == 0 if number[0] == other[0] == "'" else abs(difference - _WRAPPED_US) <= 1


def _differing(rows: ReadRows, reference: ReadRows) -> str:
    if rows.types != reference.types:
        return f"types {rows.types} and {reference.types}"
    more, less = list((rows.counts - reference.counts).elements()), list((reference.counts - rows.counts).elements())
    return f"only of DuckDB {more[:3]}, only of the oracle {less[:3]}".replace("\x1f", " | ")
