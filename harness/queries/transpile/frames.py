"""Frames of windows: ROWS, RANGE over integers and moments, and the GROUPS that are RANGE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from harness.metadata.model.schema import DateType, IntegerType
from harness.queries.transpile.functions import intervals
from harness.queries.transpile.ordering import direction
from harness.queries.transpile.spark_text import refused

if TYPE_CHECKING:
    from harness.queries.transpile.expressions import Expressions


_BOUNDS = ("start", "end")
_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame in Spark's words: ROWS or RANGE, and its bounds."""

    kind: str
    start: str
    end: str

    @property
    def sql(self) -> str:
        """What stands in the window."""
        return f"{self.kind} BETWEEN {self.start} AND {self.end}"

    @property
    def holds_its_row(self) -> bool:
        """Whether the row that it is made for is always in it; if not, it never is but for nulls of a RANGE."""
        return _reaches(self.start, "PRECEDING") and _reaches(self.end, "FOLLOWING")


def _reaches(bound: str, side: str) -> bool:
    return bound == "CURRENT ROW" or bound.endswith(side) or bound.startswith("0 ")


def over(rows: str, frame: Frame | None) -> str:
    """OVER of a window with this PARTITION BY and ORDER BY, as it follows a call."""
    return f" OVER ({' '.join(part for part in (rows, frame.sql if frame else '') if part)})"


EVERYTHING = Frame("ROWS", "UNBOUNDED PRECEDING", "UNBOUNDED FOLLOWING")


def excluded(frame: exp.WindowSpec) -> str:
    """What EXCLUDE leaves out: CURRENT ROW, GROUP, TIES; empty: nothing."""
    word = frame.args.get("exclude")
    said = "" if word is None else str(word.name).upper()
    return "" if said == "NO OTHERS" else said


def _units(frame: exp.WindowSpec) -> set[bool]:
    """Whether the bounds that are intervals have months."""
    spans = [intervals.interval(frame.args[end]) for end in _BOUNDS if isinstance(frame.args.get(end), exp.Interval)]
    return {span is not None and span[0] > 0 for span in spans}


def counts_groups(frame: exp.WindowSpec) -> bool:
    """Whether the frame is of GROUPS and says how many."""
    is_groups = str(frame.args.get("kind") or "").upper() == "GROUPS"
    return is_groups and any(isinstance(frame.args.get(end), exp.Expr) for end in _BOUNDS)


def is_of_moments(frame: exp.WindowSpec) -> bool:
    """Whether a bound of the frame is an interval."""
    return any(isinstance(frame.args.get(end), exp.Interval) for end in _BOUNDS)


def moment(expressions: Expressions, node: exp.Window, items: list[exp.Expr]) -> str:
    """The order of such a frame, of timestamps. Raises UnsupportedError."""
    value = expressions.translate(items[0].this) if len(items) == 1 else None
    if value is None or not intervals.is_moment(value):
        raise refused(node, "a RANGE of an interval over what is no date or timestamp")
    sql = f"CAST({value.sql} AS TIMESTAMP_NTZ)" if isinstance(value.type, DateType) else value.sql
    return f"{sql}{direction(items[0])}"


def written(expressions: Expressions, frame: exp.WindowSpec, order: list[exp.Expr]) -> Frame:
    """The frame in Spark's SQL. Raises UnsupportedError."""
    kind = str(frame.args.get("kind") or "").upper()
    if kind == "GROUPS" and not counts_groups(frame):
        kind = "RANGE"  # which goes by groups of equal rows where it counts nothing
    if kind not in ("ROWS", "RANGE"):
        raise refused(frame, "this frame")
    if len(_units(frame)) > 1:
        raise refused(frame, "a frame of months on one side and days on the other")
    if kind == "RANGE" and not order:  # where all rows are peers; Spark has no RANGE there
        return EVERYTHING
    counted = kind == "ROWS" or _is_whole(expressions, order)
    start = _bound(frame, "start", counted=counted)
    end = _bound(frame, "end", counted=counted) if frame.args.get("end") is not None else "CURRENT ROW"
    return Frame(kind, start, end)


def _is_whole(expressions: Expressions, order: list[exp.Expr]) -> bool:
    """Whether the order is one of integers, of which a RANGE may take a few more or less."""
    return len(order) == 1 and isinstance(expressions.translate(order[0].this).type, IntegerType)


def _bound(frame: exp.WindowSpec, end: str, *, counted: bool) -> str:
    bound, side = frame.args.get(end), str(frame.args.get(f"{end}_side") or "").upper()
    if isinstance(bound, str) and bound.upper() in ("UNBOUNDED", "CURRENT ROW"):
        return f"{bound.upper()} {side}".strip()
    if isinstance(bound, exp.Literal) and bound.name.isdigit() and not bound.is_string and counted and side:
        return f"{bound.name} {side}"
    span = intervals.interval(bound) if isinstance(bound, exp.Interval) else None
    if span is not None and side and min(span) >= 0:
        months, days, clock = span
        if not months:
            micros = days * _DAY_US + clock
            return f"INTERVAL '{micros // 1_000_000}.{micros % 1_000_000:06d}' SECOND {side}"
        if not days and not clock:
            return f"INTERVAL '{months}' MONTH {side}"
    raise refused(frame, "this frame")


# The rows of a frame without those that EXCLUDE leaves out, which Spark has not: as a list of what is left.
#
# A row is known by its place among the rows of its frame, and its peers by having its order.


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
