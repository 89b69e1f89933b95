"""The tolerances of a comparison, parsed from a user's text. `harness.diff.closeness` applies them."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from harness.errors import RequestError


class Measure(enum.Enum):
    """The unit of a tolerance's amount."""

    ABSOLUTE = "absolute"
    RELATIVE = "relative"  # relative to the value with the larger magnitude
    ULPS = "ulps"  # the number of floats between two values
    SECONDS = "seconds"  # for times


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The distance up to which two values of a column count as equal, in paired rows.

    Null is close only to null, and an infinity or NaN only to itself.

    Attributes:
        amount: The largest distance.
        measure: The unit of the amount.
        reason: The reason shown in reports.
    """

    amount: Decimal
    measure: Measure = Measure.ABSOLUTE
    reason: str | None = None

    @staticmethod
    def parse(text: str) -> Tolerance:
        """Return the tolerance for a text like `0.1%`, `1e-9 relative`, `4 ulps`, or `500 ms`.

        The text may end with ` because REASON`.

        Raises:
            RequestError: The text is not a tolerance, or is negative.
        """
        amount, _, reason = text.partition(" because ")
        result = _AMOUNT.fullmatch(amount.strip())
        measure, factor = _UNITS.get(result["unit"].strip().lower(), (None, "0")) if result else (None, "0")
        if result is None or measure is None:
            raise RequestError(
                f"Invalid tolerance {text!r}: expected an amount such as 0.01, 0.1%, 1e-9 relative, 4 ulps or 500 ms, "
                "optionally followed by because REASON"
            )
        try:
            number = Decimal(result["number"]) * Decimal(factor)
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


FLOATS = "floats"
"""The name that means all floats without a tolerance of their own."""


def parse_tolerances(tolerance: Mapping[str, Tolerance | str | float | Decimal]) -> dict[str, Tolerance]:
    """Return the tolerances by column.

    Raises:
        RequestError: A text is not a tolerance.
    """
    return {
        column: amount if isinstance(amount, Tolerance) else Tolerance.parse(str(amount))
        for column, amount in tolerance.items()
    }


def expand_floats(tolerances: Mapping[str, Tolerance], floats: Sequence[str]) -> dict[str, Tolerance]:
    """Return the tolerances. If `floats` has a tolerance, each float without another tolerance gets it.

    Args:
        tolerances: The tolerances by column or path.
        floats: The paths of all floats.
    """
    by_column = dict(tolerances)
    general = by_column.pop(FLOATS, None)
    return by_column if general is None else {**dict.fromkeys(floats, general), **by_column}
