"""The relaxations of a comparison: plain values, made from a user's words.

`harness.diff.closeness` judges tolerances in SQL, `harness.diff.relaxed` gives the relaxed sides.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal, InvalidOperation

from harness.errors import RequestError
from harness.metadata.model.arguments import check, checked


class Measure(enum.Enum):
    """The unit of a tolerance's amount."""

    ABSOLUTE = "absolute"
    RELATIVE = "relative"  # of the larger of both values, without their signs
    ULPS = "ulps"  # floats that lie between
    SECONDS = "seconds"  # of times


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The distance at which values of a column still pass as equal; only where rows are paired by keys.

    A null is close to a null alone, an infinity or NaN to itself. amount: the largest distance. reason: for reports.
    """

    amount: Decimal
    measure: Measure = Measure.ABSOLUTE
    reason: str | None = None

    def __post_init__(self) -> None:
        check({"amount": self.amount})

    @staticmethod
    @checked
    def parse(text: str) -> Tolerance:
        """The tolerance of `0.01`, `0.1%`, `1e-9 relative`, `4 ulps` or `500 ms`, and ` because REASON` behind it.

        Raises RequestError: the text is none of these, or negative.
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
        units = {Measure.RELATIVE: " of the value", Measure.ULPS: " ulps", Measure.SECONDS: " s"}
        words = amount + units.get(self.measure, "")
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


FLOATS = "floats"
"""All floats that have no tolerance of their own, in place of a column's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxations:
    """The differences that are let pass, none by default; reports name them all.

    tolerance: by column or part of a column, such as `s.x`, `l.element` or `m.value`, or for all `floats`, also those
    in structs, lists and maps, unless a column is called so; a `Tolerance`, or its words. Needs keys. exclude: columns
    and fields of structs, such as `s.x`, that are left out on both sides. rename: the right side's name by the left
    side's, which reports say. ignore_name_case: columns are paired without regard to the case of their names. cast:
    DuckDB's types by column, for both sides. ignore_case: text is compared in lower case. trim: text is compared
    without spaces (U+0020) around it. null_as: this text, once trimmed, is null. These three concern columns of text,
    not text in lists, structs or
    maps. types: differences of types; None: all beside a file or a table of another database, else none.
    """

    tolerance: Mapping[str, Tolerance | str | float | Decimal] = field(default_factory=dict)
    exclude: Sequence[str] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    ignore_name_case: bool = False
    cast: Mapping[str, str] = field(default_factory=dict)
    ignore_case: bool = False
    trim: bool = False
    null_as: str | None = None
    types: frozenset[TypeRule] | None = None

    def __post_init__(self) -> None:
        check({field.name: getattr(self, field.name) for field in fields(self)}, ("null_as", "types"))

    @property
    def tolerances(self) -> dict[str, Tolerance]:
        """The tolerances by column. Raises RequestError: words that are no tolerance."""
        return {
            column: amount if isinstance(amount, Tolerance) else Tolerance.parse(str(amount))
            for column, amount in self.tolerance.items()
        }

    def check(self, keys: tuple[str, ...]) -> None:
        """Refuses a tolerance without keys, or of a key, and a name that is excluded and used too."""
        for column in self.tolerances:
            if not keys:
                raise RequestError(
                    f"Cannot use a tolerance of {column!r} without keys: rows are paired by keys", options=("keys",)
                )
            if column in keys:
                raise RequestError(f"Cannot use a tolerance of {column!r}: it is a key, by which rows are paired")
        used = {self.fold(each) for each in (*keys, *self.tolerance, *self.rename, *self.cast)}
        for column in self.exclude:
            if self.fold(column) in used:
                raise RequestError(f"Cannot exclude {column!r}: it is a key, has a tolerance, is renamed or cast")
        if len(set(self.rename.values())) < len(self.rename):
            raise RequestError(f"Invalid rename {dict(self.rename)}: two columns stand for one of the right side")

    def fold(self, name: str) -> str:
        """The form of a column's name that is the same for names of the same column."""
        return name.lower() if self.ignore_name_case else name

    def resolved(self, left: Sequence[str], right: Sequence[str]) -> Relaxations:
        """These relaxations in the left side's own names; `rename` pairs all columns whose names differ by case.

        Raises RequestError: two columns of a side differ by case alone.
        """
        if not self.ignore_name_case:
            return self
        lefts, rights = _by_lower_case("left", left), _by_lower_case("right", right)
        rename = {lefts.get(a.lower(), a): rights.get(b.lower(), b) for a, b in self.rename.items()}
        alike = {own: rights[lower] for lower, own in lefts.items() if lower in rights and own not in rename}
        taken = set(rename.values())
        rename |= {own: other for own, other in alike.items() if own != other and other not in taken}
        cast = {lefts.get(name.lower(), name): type_ for name, type_ in self.cast.items()}
        return replace(self, rename=rename, cast=cast)

    def each_float(self, floats: Sequence[str]) -> dict[str, Tolerance]:
        """Return the tolerances, with that of all floats given to each float without a tolerance of its own.

        Args:
            floats: the paths to all floats.
        """
        tolerances = self.tolerances
        general = tolerances.pop(FLOATS, None)
        return tolerances if general is None else {**dict.fromkeys(floats, general), **tolerances}

    def own_name(self, column: str, side: int) -> str:
        """The side's name of a column that reports call `column`; 0 is the left side, 1 the right side."""
        if not side:
            return column
        return next((b for a, b in self.rename.items() if self.fold(a) == self.fold(column)), column)

    def shown_name(self, own: str, side: int) -> str:
        """The reports' name of a column that the side calls `own`: the inverse of `own_name`."""
        if not side:
            return own
        return next((a for a, b in self.rename.items() if self.fold(b) == self.fold(own)), own)

    @property
    def changes_text(self) -> bool:
        """Tells whether columns of text are compared as something else."""
        return self.ignore_case or self.trim or self.null_as is not None

    def described(self, columns: Sequence[str]) -> tuple[str, ...]:
        """A line for each, except for types, whose use depends on the sides. columns: those that are compared."""
        names = {FLOATS: "all floats"} if FLOATS not in columns else {}
        lines = [f"tolerance of {names.get(name, name)}: {each}" for name, each in self.tolerances.items()]
        if self.exclude:
            lines.append(f"left out: {', '.join(self.exclude)}")
        if self.ignore_name_case:
            lines.append("columns are paired without regard to the case of their names")
        renamed = [(a, b) for a, b in self.rename.items() if not (self.ignore_name_case and a.lower() == b.lower())]
        lines += [f"renamed: {left} is {right} on the right" for left, right in renamed]
        lines += [f"cast: {column} is {type_} on both sides" for column, type_ in self.cast.items()]
        if self.ignore_case:
            lines.append("text is compared without regard to case")
        if self.trim:
            lines.append("text is compared without spaces around it")
        if self.null_as is not None:
            lines.append(f"the text {self.null_as!r} is null")
        return tuple(lines)


def _by_lower_case(side: str, names: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        other = found.setdefault(name.lower(), name)
        if other != name:
            raise RequestError(
                f"Cannot ignore the case of names: the {side} side has {other!r} and {name!r}", field=name
            )
    return found


NOTHING = Relaxations()
"""No relaxation."""
