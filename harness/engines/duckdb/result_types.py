"""The types in which a query's columns leave DuckDB.

DuckDB has types for which neither Arrow nor Parquet has an equal: its Arrow output carries them as bytes that only
DuckDB reads, rounds them or drops a part. They are cast in the SQL, at every level of a nested type:

    HUGEINT, UHUGEINT                    DECIMAL(38,0), as sums of integers are on Spark; a longer value is an error
    BIT, BIGNUM, TIME WITH TIME ZONE     their text
    TYPE                                 its name
    VARIANT                              JSON text, as variant columns of tables have it
    a struct without names (DuckDB 1)    fields called element1, element2, ..., as tuples leave DuckDB 2
    "NULL" (DuckDB 2)                    INTEGER, as on DuckDB 1 and Spark; Arrow has no maps with such keys

All others stay. `docs/reference/result-types.md` shows what each gives in every output.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import duckdb

from harness.engines.shared import sqltext
from harness.errors import UnsupportedError

_OLD_DUCKDB = int(duckdb.__version__.split(".")[0]) < 2
_WHOLE = "DECIMAL(38,0)"
_LEAVES = {
    "hugeint": _WHOLE,
    "uhugeint": _WHOLE,
    "bit": "VARCHAR",
    "bignum": "VARCHAR",
    "time with time zone": "VARCHAR",
    "type": "VARCHAR",
    "variant": "JSON",
    "null": "INTEGER",
}


def given_out(names: Sequence[str], types: Iterable[Any], shown: Sequence[str] | None = None) -> str | None:
    """The list of a SELECT that gives a result out; None where all columns stay as they are.

    Args:
        names: of the result's columns.
        types: the type of each, as a relation has it.
        shown: what the columns are called from here on; None: as they are.

    Raises:
        UnsupportedError: no type can hold a column's values; the message names it, and what to write in its place.
    """
    shown = names if shown is None else shown
    columns = list(zip(shown, types, strict=True))
    casts = [_target(stored, name) for name, stored in columns]
    if all(cast is None for cast in casts) and list(shown) == list(names):
        return None
    return ", ".join(
        f"{f'#{place}' if cast is None else _cast(f'#{place}', name, stored, cast)} AS {sqltext.name(name)}"
        for place, ((name, stored), cast) in enumerate(zip(columns, casts, strict=True), 1)
    )


def _cast(text: str, name: str, stored: Any, to: str) -> str:
    """A column in another type. A NULL stays one: DuckDB 1 would make a JSON null of a VARIANT's."""
    value = f"CAST({text} AS {to})"
    if _is_long(stored):
        problem = (
            f"Cannot give out column {name!r}: an integer in it has more than 38 digits, which DECIMAL(38,0) does not "
            "hold; cast it in the query, with CAST(... AS VARCHAR) for all of its digits"
        )
        # Nothing but a number of too many digits makes these casts fail, and TRY gives NULL then. Nested values go
        # through a list, because DuckDB 1 has no COALESCE of arrays.
        nested = bool(_parts(stored))
        kept = f"coalesce(TRY({f'[{value}]' if nested else value}), error({sqltext.text(problem)}))"
        value = f"list_extract({kept}, 1)" if nested else kept
    return f"CASE WHEN {text} IS NOT NULL THEN {value} END"


def _target(stored: Any, column: str, *, nested: bool = False) -> str | None:
    """The type to cast to, as SQL; None: as it is."""
    if str(stored).startswith("AGGREGATE_STATE"):
        # DuckDB 2.0 says that it is what the state is stored in, and ends the process where Arrow asks for it.
        raise _refused(column, "the state of an aggregate", "with finalize(...)")
    if nested and _OLD_DUCKDB and stored.id == "variant":
        raise _refused(column, "a VARIANT in a nested type, whose NULL DuckDB 1 casts to a JSON null", "to VARCHAR")
    if stored.id in _LEAVES:
        return _LEAVES[stored.id]
    parts = _parts(stored)
    casts = [_target(part, column, nested=True) for _, part in parts]
    is_bare = stored.id == "struct" and any(name == "" for name, _ in parts)
    if not is_bare and all(cast is None for cast in casts):
        return None
    inner = [str(part) if cast is None else cast for (_, part), cast in zip(parts, casts, strict=True)]
    if is_bare:
        return _struct("STRUCT", [f"element{place}" for place in range(1, len(parts) + 1)], inner)
    match stored.id:
        case "list":
            return f"{inner[0]}[]"
        case "array":
            return f"{inner[0]}[{dict(stored.children)['size']}]"
        case "map" | "tuple":
            return f"{stored.id}({', '.join(inner)})"
        case kind:
            return _struct(kind, [name for name, _ in parts], inner)


def _struct(kind: str, names: list[str], types: list[str]) -> str:
    return f"{kind}({', '.join(f'{sqltext.name(n)} {t}' for n, t in zip(names, types, strict=True))})"


def _parts(stored: Any) -> list[tuple[str, Any]]:
    """The types in a nested type, with their names, where they have any."""
    match stored.id:
        case "list" | "array":
            return [stored.children[0]]
        case "map" | "struct" | "tuple":
            return list(stored.children)
        case "union":
            return list(stored.children[1:])  # the first is the tag
        case _:
            return []


def _is_long(stored: Any) -> bool:
    """Whether there are integers in it that DECIMAL(38,0) may not hold."""
    return _LEAVES.get(stored.id) == _WHOLE or any(_is_long(part) for _, part in _parts(stored))


def _refused(column: str, what: str, instead: str) -> UnsupportedError:
    return UnsupportedError(
        f"Cannot give out column {column!r}: it holds {what}; convert it in the query, {instead}", field=column
    )
