"""The rows of a frame without those that EXCLUDE leaves out, which Spark has not: as a list of what is left.

A row is known by its place among the rows of its frame, and its peers by having its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.queries.transpile.frames import Frame, over


@dataclass(frozen=True, slots=True)
class Exclusion:
    """What EXCLUDE leaves out.

    kind: CURRENT ROW, GROUP or TIES. rows: PARTITION BY and ORDER BY of the window. keys: what it is ordered by.
    """

    kind: str
    rows: str
    keys: tuple[str, ...]
    frame: Frame

    def left(self, fields: str, conditions: Sequence[str] = ()) -> str:
        """The rows that are left, in the order of the window.

        Args:
            fields: names and values of a row, as NAMED_STRUCT takes them.
            conditions: those of rows that count.
        """
        own = "".join(f", 'p{i}', {key}" for i, key in enumerate(self.keys))
        counts = f", 'f', {' AND '.join(conditions)}" if conditions else ""
        rows = f"COLLECT_LIST(NAMED_STRUCT({fields}{own}{counts})){over(self.rows, self.frame)}"
        peer = " AND ".join(f"y.p{i} <=> w.p{i}" for i in range(len(self.keys))) or "true"
        itself = "i + 1 = w.place"
        stays = {
            "CURRENT ROW": f"NOT ({itself})",
            "GROUP": f"NOT ({peer})",
            "TIES": f"(NOT ({peer}) OR {itself})",
        }[self.kind] + (" AND y.f" if conditions else "")
        # A lambda may hold no window function and no aggregate: what it needs of the row stands beside the list.
        given = f"NAMED_STRUCT('rows', {rows}, 'place', {self._place()}{own})"
        return f"TRY_ELEMENT_AT(TRANSFORM(ARRAY({given}), w -> FILTER(w.rows, (y, i) -> {stays})), 1)"

    def _place(self) -> str:
        """The place of the row among those of its frame; 0: it is not there."""
        if self.kind == "GROUP" or not self.frame.holds_its_row:
            return "0"
        number = self._count(Frame("ROWS", "UNBOUNDED PRECEDING", "CURRENT ROW"))
        if self.frame.start == "UNBOUNDED PRECEDING":
            return number
        up_to_here = self._count(Frame(self.frame.kind, self.frame.start, "CURRENT ROW"))
        if self.frame.kind == "ROWS":
            return up_to_here
        before = f"{self._count(Frame('RANGE', 'UNBOUNDED PRECEDING', 'CURRENT ROW'))} - {up_to_here}"
        return f"{number} - ({before})"

    def _count(self, frame: Frame) -> str:
        return f"COUNT(*){over(self.rows, frame)}"
