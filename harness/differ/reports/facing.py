"""Which differing rows are shown beside each other, and which of their cells are marked.

With keys, the comparison itself says which rows are the same row, changed. Without keys nothing says so; a reader is
still helped by seeing alike rows beside each other, so a row only on the left faces the row only on the right that it
shares most values with, if that is at least half of them. Counts are not touched by this: it is a matter of showing.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.differ.result import Comparison, Origin, RowDifference, RowKind

_MOST_PAIRS = 250_000
"""How many pairs of rows are looked at, at most; beyond, rows face nothing, because looking takes too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facing:
    """One or two differing rows, as shown beside each other.

    kind: how the row differs; None: two rows, related by no key but by likeness.
    left, right: printed values by column; None: no such row. left_count, right_count: how many more of it that side
        has; 0 where it has none.
    marked: by column, whether the two rows differ there; all False for one row.
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


def facing(comparison: Comparison) -> tuple[Facing, ...]:
    """All rows of the comparison, each once: changed ones, alike ones, then those that face nothing."""
    changed = [_changed(row, comparison.columns) for row in comparison.rows if row.kind is RowKind.CHANGED]
    lefts = [row for row in comparison.rows if row.kind is RowKind.ONLY_LEFT]
    rights = [row for row in comparison.rows if row.kind is RowKind.ONLY_RIGHT]
    partners = {} if comparison.keys else _partners(lefts, rights)
    alike = [_alike(lefts[left], rights[right]) for left, right in sorted(partners.items())]
    taken = set(partners.values())
    rest = [row for number, row in enumerate(lefts) if number not in partners]
    rest += [row for number, row in enumerate(rights) if number not in taken]
    return (*changed, *alike, *(_alone(row) for row in rest))


def _partners(lefts: list[RowDifference], rights: list[RowDifference]) -> dict[int, int]:
    """Numbers of right rows by numbers of left rows: the most alike first, each row at most once."""
    if len(lefts) * len(rights) > _MOST_PAIRS:
        return {}
    candidates = [
        (-shared, left, right)
        for left, left_row in enumerate(lefts)
        for right, right_row in enumerate(rights)
        if (shared := _shared(left_row, right_row)) > 0 and 2 * shared >= len(left_row.left or ())
    ]
    partners: dict[int, int] = {}
    taken: set[int] = set()
    for _, left, right in sorted(candidates):
        if left not in partners and right not in taken:
            partners[left] = right
            taken.add(right)
    return partners


def _shared(left: RowDifference, right: RowDifference) -> int:
    return sum(a == b for a, b in zip(left.left or (), right.right or (), strict=True))


def _changed(row: RowDifference, columns: tuple[str, ...]) -> Facing:
    return Facing(
        kind=RowKind.CHANGED,
        left=row.left,
        right=row.right,
        left_count=row.count,
        right_count=row.count,
        marked=tuple(column in row.differing for column in columns),
        left_origins=row.left_origins,
        right_origins=row.right_origins,
    )


def _alike(left: RowDifference, right: RowDifference) -> Facing:
    pairs = zip(left.left or (), right.right or (), strict=True)
    return Facing(
        kind=None,
        left=left.left,
        right=right.right,
        left_count=left.count,
        right_count=right.count,
        marked=tuple(a != b for a, b in pairs),
        left_origins=left.left_origins,
        right_origins=right.right_origins,
    )


def _alone(row: RowDifference) -> Facing:
    return Facing(
        kind=row.kind,
        left=row.left,
        right=row.right,
        left_count=row.count if row.left is not None else 0,
        right_count=row.count if row.right is not None else 0,
        marked=(False,) * len(row.left if row.left is not None else row.right or ()),
        left_origins=row.left_origins,
        right_origins=row.right_origins,
    )
