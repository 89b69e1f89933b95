"""A side as its relaxations give it: columns under other names, text in another form, all by the side's own engine.

A side that is changed is no planned table any more, as its values are not those of the files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa

from harness.diff.by_hashes import LABELS, asking
from harness.diff.hashing import carried
from harness.diff.paths import suggestion
from harness.diff.relaxations import Relaxations
from harness.diff.schemas import converted, nanos, normal_type, plain
from harness.diff.sides import ArrowSide, DuckDBSide, Side, in_engine, logical
from harness.errors import RequestError, UnknownColumnError
from harness.metadata.filters import sqltext
from harness.storage.threads import tracked

_FOLDED = ("İΣς", "iσσ")
"""Letters whose lower case is another in DuckDB than in Java; the other letters are alike in both."""


def relaxed(sides: tuple[Side, Side], relaxations: Relaxations, resources: ExitStack) -> tuple[Side, Side]:
    """The sides with the left side's names of columns, in the types and forms in which they are compared.

    Raises RequestError: a column that is renamed or cast is missing, its new name is taken, or the type is none.
    """
    for name in relaxations.rename:
        if name not in sides[0].schema.names:
            raise _missing("rename", name, "left", sides[0])
    found = []
    for number, side in enumerate(sides):
        with asking(number, "fitting columns of the {} side"):
            if number and relaxations.rename:
                side = _renamed(side, {own: name for name, own in relaxations.rename.items()})
            if relaxations.cast:
                side = _cast(side, relaxations.cast, LABELS[number], resources)
            found.append(_with_text(side, relaxations) if relaxations.changes_text else side)
    return found[0], found[1]


def _renamed(side: Side, names: Mapping[str, str]) -> Side:
    for old, new in names.items():
        if old not in side.schema.names:
            raise _missing("rename to", old, "right", side)
        if new in side.schema.names and new not in names:
            raise RequestError(f"Cannot rename {old!r}: the right side has a column {new!r} too", field=new)
    schema = pa.schema([field.with_name(names.get(field.name, field.name)) for field in side.schema])
    if isinstance(side, ArrowSide):
        return ArrowSide(info=side.info, whole=side.whole.rename_columns(schema.names), resources=side.resources)
    return replace(side, schema=schema, plan=None)


def _missing(what: str, name: str, label: str, side: Side) -> UnknownColumnError:
    hint = suggestion(name, [side.schema.names])
    return UnknownColumnError(f"Cannot {what} {name!r}: the {label} side has no such column; {hint}", field=name)


def _cast(side: Side, casts: Mapping[str, str], label: str, resources: ExitStack) -> Side:
    """The side with columns in other types. DuckDB casts for all engines: a cast means the same on both sides."""
    for name in casts:
        if name not in side.schema.names:
            raise _missing("cast", name, label, side)
    if not isinstance(side, ArrowSide | DuckDBSide):
        side = ArrowSide(info=side.info, whole=side.head(side.schema.names, _ALL), resources=resources)
    side = side.in_duckdb if isinstance(side, ArrowSide) else side
    texts, types = {}, {}
    for name, type_ in casts.items():
        i, place = side.schema.get_field_index(name), f"the {label} side's column {name!r}"
        own = plain(side.schema.field(i).type)
        try:
            wanted: object = duckdb.sqltype(type_)
        except duckdb.Error:
            raise RequestError(
                f"Cannot cast {name!r} to {type_!r}: DuckDB has no such type; {suggestion(type_, [_TYPES])}", field=name
            ) from None
        texts[i] = partial(_cast_text, stored=side.relation.types[i], type_=own, wanted=wanted, place=place)
        types[i] = logical(wanted, name)
    return side.with_columns(texts, types)


_TYPES = (
    *("BIGINT", "INTEGER", "DOUBLE", "FLOAT", "DECIMAL(18, 2)", "VARCHAR", "STRING", "DATE", "TIMESTAMP"),
    *("TIMESTAMP WITH TIME ZONE", "TIME", "BOOLEAN", "BLOB", "UUID"),
)
"""Types to suggest for a misspelled one."""
_ALL = 2**31 - 1
"""The most rows that Spark gives."""


def _cast_text(text: str, stored: Any, type_: pa.DataType, wanted: Any, place: str) -> str:
    """A cast that names the column of a value that it cannot cast. Times with a zone are in UTC."""
    kind = pa.types
    is_plain = kind.is_binary(type_) or not (kind.is_nested(type_) or stored.id == "blob")
    value = _natural(text, stored, type_) if is_plain else None
    is_zoned = wanted.id == "timestamp with time zone"
    if value is None or (is_zoned and not (kind.is_timestamp(type_) or kind.is_date(type_))):
        raise RequestError(f"Cannot cast {place}, of type {type_}, to {wanted}")
    tried = f"TRY_CAST({value} AS {'TIMESTAMP' if is_zoned else wanted})"
    error = f"error({sqltext.text(f'{place} has a value that is no {wanted}: ')} || CAST({value} AS VARCHAR))"
    checked = f"CASE WHEN {value} IS NOT NULL AND {tried} IS NULL THEN {error} ELSE {tried} END"
    return f"({checked}) AT TIME ZONE 'UTC'" if is_zoned else checked


def _natural(text: str, stored: Any, type_: pa.DataType) -> str | None:
    """A value in DuckDB's own type, where integers stand for times; None: it has none."""
    kind = pa.types
    if stored.id == "timestamp with time zone":
        return f"({text} AT TIME ZONE 'UTC')"
    if stored.id not in ("bigint", "integer") or kind.is_integer(type_):
        return text
    unit = nanos(type_)
    micros = f"CAST({text} AS BIGINT) * {unit // 1000}"
    if kind.is_timestamp(type_) or kind.is_date(type_):
        return f"make_timestamp({micros})" if unit > 1 else f"make_timestamp_ns({text})"
    if unit == 1:
        return None
    return f"(TIME '00:00:00' + to_microseconds({micros}))" if kind.is_time(type_) else f"to_microseconds({micros})"


def _with_text(side: Side, relaxations: Relaxations) -> Side:
    texts = [i for i, type_ in enumerate(side.schema.types) if pa.types.is_string(normal_type(type_))]
    if not texts:
        return side
    own, null = in_engine(side), relaxations.null_as
    null_text = None if null is None else sqltext.text(null)
    if null is not None and not isinstance(own, DuckDBSide):
        null_text = f"CAST(X'{null.encode().hex()}' AS STRING)"  # whatever Spark's settings make of backslashes

    def form(text: str) -> str:
        text = f"CAST({text} AS STRING)"
        if relaxations.trim:
            text = f"trim(BOTH ' ' FROM {text})"
        if null_text is not None:
            text = f"nullif({text}, {null_text})"
        return f"lower(translate({text}, '{_FOLDED[0]}', '{_FOLDED[1]}'))" if relaxations.ignore_case else text

    return own.with_columns(dict.fromkeys(texts, form), {})


# Conversions before a comparison. A number beside a float becomes the nearest float (`TypeRule.ROUNDING`), read from
# the number's text, as all engines do alike; a direct cast of DuckDB's divides, and may be a float off. True and false
# beside an integer become 1 and 0 (`TypeRule.TRUTH`).


def reconciled(sides: tuple[Side, Side], columns: tuple[str, ...]) -> tuple[Side, Side]:
    """Both sides, with the columns converted that need it."""
    schemas, found = [side.schema for side in sides], []
    for side, own, other in zip(sides, schemas, reversed(schemas), strict=True):
        wanted = {own.get_field_index(n): converted(own.field(n).type, other.field(n).type) for n in columns}
        types = {place: type_ for place, type_ in wanted.items() if type_ is not None}
        casts = {place: _CASTS[type_].format for place, type_ in types.items()}
        found.append(in_engine(side).with_columns(casts, types) if types else side)
    return found[0], found[1]


_CASTS = {
    pa.float32(): "CAST(CAST({} AS STRING) AS FLOAT)",
    pa.float64(): "CAST(CAST({} AS STRING) AS DOUBLE)",
    pa.int32(): "CAST({} AS INT)",
}
"""Casts in the SQL of both engines."""


# Rows without keys whose columns may differ in their last bits are paired by all other columns, and rows that agree in
# these in the order of the values. So each row finds the closest row, if there is a row for each.


MOST_ROWS = 2_000_000
"""The most rows of a side that are held in memory to be paired; larger sides are compared without allowances."""
PLACE = "place among equal rows"


def paired(
    left: pa.Table, right: pa.Table, close: Collection[str]
) -> tuple[tuple[pa.Table, pa.Table], tuple[str, ...]] | None:
    """Both sides with a column more, and the columns that tell rows apart, none of them close; None: there are none."""
    exact = [name for name in left.column_names if name not in close]
    try:
        sides = (_placed(left, exact, close), _placed(right, exact, close))
    except duckdb.Error:  # such as of values that have no order
        return None
    return sides, (*exact, PLACE)


def _placed(rows: pa.Table, exact: Sequence[str], close: Collection[str]) -> pa.Table:
    """The rows with their places among those that agree in all exact columns, by the values of the close columns."""
    texts = {name: f"c{i}" for i, name in enumerate(rows.column_names)}
    partition = f"PARTITION BY {', '.join(texts[name] for name in exact)} " if exact else ""
    order = ", ".join(texts[name] for name in rows.column_names if name in close)
    with closing(tracked(duckdb.connect())) as connection:
        held = carried(rows).append_column("row_number", pa.array(range(rows.num_rows), pa.int64()))
        connection.register("rows", held)
        numbered = f"row_number() OVER ({partition}ORDER BY {order})"
        places = pa.table(connection.sql(f'SELECT {numbered} AS p FROM rows ORDER BY "row_number"'))
    return rows.append_column(PLACE, places.column(0))
