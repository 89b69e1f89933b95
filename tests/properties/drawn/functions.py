"""The whole table of functions, with the calls that tests draw of each.

`functions.txt` lists them. Operators, casts, LIKE and window functions are lowered by modules of their own, and have
their names there alone.
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
    """The section of the table in which a function stands."""

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

    names: DuckDB's names, first the usual one; an operator by its sign.
    draws: DuckDB's SQL with kinds of values in braces, by which tests draw calls: `lpad({text}, {count}, {text})`.
    forms: the signatures of the code.
    alternative: words to write instead of a function that is always refused; empty: it is not.
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
"""Functions whose results may differ by 2 units in the last place: the libraries round in their own ways."""

_CODE = {function.names[0]: function for function in (*SCALARS, *AGGREGATES)}


def _entries(kind: FunctionKind, rows: str) -> Iterator[FunctionEntry]:
    """The entries of a section, a row each.

    A row: DuckDB's name of a function in the code, or several, or all names of what has an entry here alone, then two
    spaces and the calls, which may go on in the next line. @ is the name, {window} is `_WINDOW`. What stands behind a
    hyphen has no calls.
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
