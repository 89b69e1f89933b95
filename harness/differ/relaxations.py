"""The relaxations of a comparison, each thing named: plain values, made from what a user writes.

    Tolerance    how far two values of a column may lie apart
    Relaxations  all that is let pass; by default nothing

`harness.differ.closeness` says in SQL what is within a tolerance, `harness.differ.relaxed` what a relaxed side gives.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal, InvalidOperation

from harness.arguments import check, checked
from harness.errors import RequestError


class Measure(enum.Enum):
    """The unit of a tolerance's amount."""

    ABSOLUTE = "absolute"
    RELATIVE = "relative"  # of the larger of both values, without their signs
    ULPS = "ulps"  # floats that lie between
    SECONDS = "seconds"  # of times


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The distance at which values of a column still pass as equal; only where rows are paired by keys.

    A null is close to nothing but a null, an infinity or NaN to nothing but itself.

    amount: at most so far, the amount itself included. reason: why; printed in reports.
    """

    amount: Decimal
    measure: Measure = Measure.ABSOLUTE
    reason: str | None = None

    def __post_init__(self) -> None:
        check({"amount": self.amount})

    @staticmethod
    @checked
    def parse(text: str) -> Tolerance:
        """`0.01`, `0.1%`, `1e-9 relative`, `4 ulps`, `500 ms`, and behind it ` because REASON`.

        Raises:
            RequestError: it is none of these, or negative.
        """
        amount, _, reason = text.partition(" because ")
        found = _AMOUNT.fullmatch(amount.strip())
        measure, factor = _UNITS.get(found["unit"].strip().lower(), (None, "0")) if found else (None, "0")
        if found is None or measure is None:
            raise RequestError(
                f"Invalid tolerance {text!r}: expected an amount such as 0.01, 0.1%, 1e-9 relative, 4 ulps or 500 ms, "
                "and behind it, if you like, because REASON"
            )
        try:
            number = Decimal(found["number"]) * Decimal(factor)
        except InvalidOperation:
            raise RequestError(f"Invalid tolerance {text!r}: its amount has too many digits") from None
        return Tolerance(number, measure, reason.strip() or None)

    def __str__(self) -> str:
        amount = format(self.amount.normalize(), "f" if abs(self.amount.adjusted()) < _PLAIN_DIGITS else "e")
        words = {
            Measure.ABSOLUTE: amount,
            Measure.RELATIVE: f"{amount} of the value",
            Measure.ULPS: f"{amount} ulps",
            Measure.SECONDS: f"{amount} s",
        }[self.measure]
        return f"{words}, because {self.reason}" if self.reason else words


_PLAIN_DIGITS = 6
_AMOUNT = re.compile(r"(?P<number>(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?)(?P<unit>\s*[A-Za-z%]*)")
_UNITS: Mapping[str, tuple[Measure, str]] = {
    "": (Measure.ABSOLUTE, "1"),
    "%": (Measure.RELATIVE, "0.01"),
    "rel": (Measure.RELATIVE, "1"),
    "relative": (Measure.RELATIVE, "1"),
    "ulp": (Measure.ULPS, "1"),
    "ulps": (Measure.ULPS, "1"),
    "ns": (Measure.SECONDS, "1e-9"),
    "us": (Measure.SECONDS, "1e-6"),
    "ms": (Measure.SECONDS, "1e-3"),
    "s": (Measure.SECONDS, "1"),
    "min": (Measure.SECONDS, "60"),
    "h": (Measure.SECONDS, "3600"),
}


class TypeRule(enum.Enum):
    """The differences of types that are let pass; the values are the names in reports and options."""

    INTEGERS = "integer widths"
    DECIMALS = "decimal scale"
    FLOATS = "float widths"
    ROUNDING = "nearest float"  # a number beside a float is the float nearest to it; of whole columns only
    TRUTH = "truth as number"  # true and false beside an integer are 1 and 0; of whole columns only
    ZONES = "timestamp zone"  # a time without a zone is one in UTC
    UNITS = "timestamp unit"


ALL_TYPE_RULES = frozenset(TypeRule)
"""All rules, by which files and tables of other databases are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxations:
    """The differences that are let pass. Nothing by default; reports name all that was let pass.

    tolerances: by column; need keys. exclude: columns that are left out on both sides. rename: what the left side calls
    a column, and what the right side calls it; reports say the left name. ignore_case: text is compared in lower case.
    trim: text is compared without spaces (U+0020) around it. null_as: text that is this, once trimmed, is null. These
    three concern columns of text, not text in lists, structs or maps. types: differences of types that are let pass;
    None: all where a side is a file or a table of another database, else none.
    """

    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    ignore_case: bool = False
    trim: bool = False
    null_as: str | None = None
    types: frozenset[TypeRule] | None = None

    def __post_init__(self) -> None:
        check({field.name: getattr(self, field.name) for field in fields(self)}, ("null_as", "types"))

    def check(self, keys: tuple[str, ...]) -> None:
        """Refuses relaxations that contradict each other.

        Raises RequestError: a tolerance without keys, or of a key; a name that is excluded and used too.
        """
        for column in self.tolerances:
            if not keys:
                raise RequestError(
                    f"Cannot use a tolerance of {column!r} without keys: rows are paired by keys", options=("keys",)
                )
            if column in keys:
                raise RequestError(f"Cannot use a tolerance of {column!r}: it is a key, by which rows are paired")
        used = {*keys, *self.tolerances, *self.rename}
        for column in self.exclude:
            if column in used:
                raise RequestError(f"Cannot exclude {column!r}: it is a key, has a tolerance or is renamed")
        if len(set(self.rename.values())) < len(self.rename):
            raise RequestError(f"Invalid rename {dict(self.rename)}: two columns stand for one of the right side")

    def own_name(self, column: str, side: int) -> str:
        """The side's name of a column that reports call `column`; 0 is the left side, 1 the right one."""
        return self.rename.get(column, column) if side else column

    def shown_name(self, own: str, side: int) -> str:
        """The reports' name of a column that the side calls `own`: the inverse of `own_name`."""
        return next((left for left, right in self.rename.items() if right == own), own) if side else own

    @property
    def changes_text(self) -> bool:
        """Tells whether columns of text are compared as something else."""
        return self.ignore_case or self.trim or self.null_as is not None

    def described(self) -> tuple[str, ...]:
        """A line for each, except for types, whose use depends on the sides."""
        lines = [f"tolerance of {column}: {tolerance}" for column, tolerance in self.tolerances.items()]
        if self.exclude:
            lines.append(f"left out: {', '.join(self.exclude)}")
        lines += [f"renamed: {left} is {right} on the right" for left, right in self.rename.items()]
        if self.ignore_case:
            lines.append("text is compared without regard to case")
        if self.trim:
            lines.append("text is compared without spaces around it")
        if self.null_as is not None:
            lines.append(f"the text {self.null_as!r} is null")
        return tuple(lines)


NOTHING = Relaxations()
"""No relaxation."""
