"""Which differing rows are shown beside each other, and which of their cells are marked.

With keys, the two halves of a changed row face each other. Without keys, partners do: rows that nothing relates but
that they are alike. Each row is shown once, and counts are not touched by who faces whom.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.differ.result import ComparisonResult, Origin, RowDifference, RowKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPairing:
    """One or two differing rows, as shown beside each other.

    kind: how the row differs; None: two rows, related by no key but by likeness.
    left, right: printed values by column; None: no such row.
    left_count, right_count: how many more of it that side has; 0 where it has none.
    marked: by column, whether the two rows differ there; all False for one row.
    left_origins, right_origins: as for `RowDifference`.
    """

    kind: RowKind | None
    left: tuple[str, ...] | None
    right: tuple[str, ...] | None
    left_count: int
    right_count: int
    marked: tuple[bool, ...]
    left_origins: tuple[Origin, ...]
    right_origins: tuple[Origin, ...]

    @property
    def label(self) -> str:
        """What this is, in the words of the reports."""
        return "alike, not equal" if self.kind is None else self.kind.value


def pair_rows(comparison: ComparisonResult) -> tuple[RowPairing, ...]:
    """All rows of the comparison: changed ones, alike ones, then those that face nothing."""
    changed = [_changed(row, comparison) for row in comparison.rows if row.kind is RowKind.CHANGED]
    alike = [
        _alike(row, comparison.rows[row.partner], comparison)
        for row in comparison.rows
        if row.kind is RowKind.ONLY_LEFT and row.partner is not None
    ]
    alone = [
        _alone(row, comparison) for row in comparison.rows if row.kind is not RowKind.CHANGED and row.partner is None
    ]
    return (*changed, *alike, *alone)


def _changed(row: RowDifference, comparison: ComparisonResult) -> RowPairing:
    return RowPairing(
        kind=row.kind,
        left=row.left,
        right=row.right,
        left_count=row.count,
        right_count=row.count,
        marked=tuple(column in row.differing for column in comparison.columns),
        left_origins=row.left_origins,
        right_origins=row.right_origins,
    )


def _alike(left: RowDifference, right: RowDifference, comparison: ComparisonResult) -> RowPairing:
    return RowPairing(
        kind=None,
        left=left.left,
        right=right.right,
        left_count=left.count,
        right_count=right.count,
        marked=tuple(column in left.differing for column in comparison.columns),
        left_origins=left.left_origins,
        right_origins=right.right_origins,
    )


def _alone(row: RowDifference, comparison: ComparisonResult) -> RowPairing:
    return RowPairing(
        kind=row.kind,
        left=row.left,
        right=row.right,
        left_count=0 if row.left is None else row.count,
        right_count=0 if row.right is None else row.count,
        marked=(False,) * len(comparison.columns),
        left_origins=row.left_origins,
        right_origins=row.right_origins,
    )
