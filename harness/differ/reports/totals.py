"""What is said of all differing rows before any of them is shown: relaxations, columns, groups; as tables of texts."""

from __future__ import annotations

from dataclasses import dataclass

from harness.differ.reports.verdict import counted
from harness.differ.result import ColumnDifference, ComparisonResult

_MOST_EXAMPLES = 2


@dataclass(frozen=True, slots=True)
class Table:
    """A heading, names of columns, and lines of cells. numbers: places of columns whose cells are numbers."""

    title: str
    names: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    numbers: frozenset[int]


def relaxation_lines(comparison: ComparisonResult) -> tuple[str, ...]:
    """What was let pass, a line each."""
    lines = list(comparison.relaxations)
    if comparison.allowed:
        lines.append(f"{counted(comparison.allowed, 'row')} within tolerances, which is no difference")
    if comparison.sampled is not None:
        lines.append(f"compared the rows of {counted(comparison.sampled, 'key')} at most, chosen by their hashes")
    return tuple(lines)


def column_table(comparison: ComparisonResult, *, most: int | None = None) -> Table | None:
    """The columns that differ, those first in which most rows do; None: none is known.

    most: how many to show; None: all.
    """
    found = sorted(comparison.by_column, key=lambda each: (-each.rows, -each.allowed))
    if not found:
        return None
    differing = sum(each.rows > 0 for each in found)
    scope = "" if comparison.keys else ", of the alike rows below"
    title = f"columns ({differing:,} of {len(comparison.columns):,} differ{scope})"
    if most is not None and len(found) > most:
        title = f"{title[:-1]}; the {most} with most rows)"
    names = ("column", "rows", "within tolerance", "largest difference", "null left", "null right", "examples")
    chosen = [0, 1, *(i for i in range(2, 6) if any(_cells(each)[i] for each in found)), 6]
    return Table(
        title,
        tuple(names[i] for i in chosen),
        tuple(tuple(_cells(each)[i] for i in chosen) for each in found[:most]),
        frozenset(place for place, i in enumerate(chosen) if i in (1, 2, 3, 4, 5)),
    )


def group_table(comparison: ComparisonResult) -> Table | None:
    """The groups with differing rows; None: nobody asked, or there is none."""
    if not comparison.by_group:
        return None
    more = comparison.groups - len(comparison.by_group)
    title = f"by {', '.join(comparison.grouped_by)} ({counted(comparison.groups, 'group')} with differences"
    title += f", {len(comparison.by_group):,} shown)" if more else ")"
    kinds = ["changed", "only_left", "only_right"] if comparison.keys else ["only_left", "only_right"]
    words = {"changed": "changed", "only_left": "only left", "only_right": "only right"}
    width = len(comparison.grouped_by)
    return Table(
        title,
        (*comparison.grouped_by, *(words[kind] for kind in kinds)),
        tuple((*group.values, *(f"{getattr(group, kind):,}" for kind in kinds)) for group in comparison.by_group),
        frozenset(range(width, width + len(kinds))),
    )


def _cells(column: ColumnDifference) -> tuple[str, ...]:
    numbers = (column.rows, column.allowed, column.left_nulls, column.right_nulls)
    rows, allowed, left, right = (f"{number:,}" if number else "" for number in numbers)
    examples = "; ".join(f"{a} → {b}" for a, b in column.examples[:_MOST_EXAMPLES])
    return (column.column, rows or "0", allowed, column.largest or "", left, right, examples)
