"""The table of functions, with the calls that tests draw for each function.

`functions.txt` lists the functions. Operators, casts, LIKE, and window functions are lowered by separate modules, and
are only listed there.
"""

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.engines.spark.transpile.aggregates import AGGREGATES
from harness.engines.spark.transpile.functions.registry import Signature
from harness.engines.spark.transpile.functions.table import SCALARS


class FunctionKind(enum.Enum):
    """The section of the table that contains a function."""

    GENERAL = "Conditions and nulls"
    OPERATORS = "Operators and casts"
    TEXT = "Text"
    PATTERNS = "Patterns"
    NUMBERS = "Numbers"
    TIMES = "Dates and times"
    LISTS = "Lists"
    NESTED = "Structs and maps"
    AGGREGATES = "Aggregates"
    WINDOWS = "Window functions"


@dataclass(frozen=True, slots=True)
class FunctionEntry:
    """An entry of the table.

    Attributes:
        names: DuckDB's names, with the usual name first. An operator is named by its sign.
        draws: Calls in DuckDB's SQL with kinds of values in braces, which tests replace: `lpad({text}, {count},
            {text})`.
        forms: The signatures in the code.
        alternative: The replacement that the error suggests for a function that is always refused. Empty for other
            functions.
    """

    names: tuple[str, ...]
    kind: FunctionKind
    draws: tuple[str, ...]
    forms: tuple[Signature, ...] = ()
    alternative: str = ""


_WINDOW = "OVER (PARTITION BY b1 ORDER BY row)"

NEAR = frozenset(
    ("pow", "exp", "ln", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
)
"""Functions whose results may differ by 2 units in the last place, because the libraries round differently."""

_CODE = {function.names[0]: function for function in (*SCALARS, *AGGREGATES)}


def _entries(kind: FunctionKind, rows: str) -> Iterator[FunctionEntry]:
    """Yield the entries of a section, one per row.

    A row consists of the names, two spaces, and the calls, which may continue on the next line. The names are DuckDB's
    name of a function in the code, several such names, or all names of a function without code. @ stands for the name,
    {window} for `_WINDOW`. Text after a hyphen contains no calls.
    """
    for row in rows.strip().replace("\n      ", " ").replace("{window}", _WINDOW).split("\n"):
        first, _, calls = row.partition("  ")
        names = calls.split("; ") if first == "-" else first.split(" ")
        for name in names if first == "-" or first.replace(" ", "_").isidentifier() else [first]:
            draws = () if first == "-" else tuple(calls.replace("@(", f"{name}(").split("; "))
            if (code := _CODE.get(name)) is None:
                yield FunctionEntry(tuple(name.split(", ")), kind, draws)
            else:
                yield FunctionEntry(
                    code.names, kind, draws, getattr(code, "forms", ()), getattr(code, "alternative", "")
                )


_SECTIONS = re.split(r"^# (.+)\n", Path(__file__).with_suffix(".txt").read_text("utf-8"), flags=re.MULTILINE)[1:]
SUPPORTED = tuple(
    entry
    for kind, rows in zip(_SECTIONS[::2], _SECTIONS[1::2], strict=True)
    for entry in _entries(FunctionKind(kind), rows)
)
