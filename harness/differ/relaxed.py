"""A side as its relaxations give it: columns under other names, text in another form.

The side's own engine does it, so a comparison stays as it is: of rows in memory, or of hashes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from harness.differ.arrow_side import ArrowSide
from harness.differ.duckdb_side import DuckDBSide
from harness.differ.relaxations import Relaxations
from harness.differ.schemas import normal_type
from harness.differ.sides import Side
from harness.engines.shared import sqltext
from harness.errors import RequestError

if TYPE_CHECKING:
    from harness.differ.spark_side import SparkSide

_FOLDED = ("İΣς", "iσσ")
"""Letters whose lower case is another in DuckDB than in Java; the other letters are alike in both."""


def relaxed(side: Side, relaxations: Relaxations, *, is_right: bool) -> Side:
    """The side with its columns renamed and its text in the form in which it is compared.

    A side that this changes is no planned table any more: its values are not those of the files.

    Raises:
        RequestError: a column that is renamed is not there, or its new name is.
    """
    if is_right and relaxations.rename:
        side = _renamed(side, {right: left for left, right in relaxations.rename.items()})
    if not is_right:
        _check_there(side, relaxations.rename)
    return _with_text(side, relaxations) if relaxations.changes_text else side


def _check_there(side: Side, rename: Mapping[str, str]) -> None:
    for name in rename:
        if name not in side.schema.names:
            raise RequestError(f"Cannot rename {name!r}: the left side has no such column", field=name)


def _renamed(side: Side, names: Mapping[str, str]) -> Side:
    for old, new in names.items():
        if old not in side.schema.names:
            raise RequestError(f"Cannot rename to {old!r}: the right side has no such column", field=old)
        if new in side.schema.names and new not in names:
            raise RequestError(f"Cannot rename {old!r}: the right side has a column {new!r} too", field=new)
    schema = _with_names(side.schema, names)
    match side:
        case ArrowSide():
            whole = None if side.whole is None else side.whole.rename_columns(schema.names)
            stored = [replace(each, schema=schema) for each in side.stored]
            return replace(side, schema=schema, whole=whole, stored=stored)
        case DuckDBSide():
            return replace(side, schema=schema, plan=None)
        case _:
            return replace(_spark(side), schema=schema, plan=None)


def _with_names(schema: pa.Schema, names: Mapping[str, str]) -> pa.Schema:
    return pa.schema([field.with_name(names.get(field.name, field.name)) for field in schema])


def _with_text(side: Side, relaxations: Relaxations) -> Side:
    texts = [i for i, type_ in enumerate(side.schema.types) if pa.types.is_string(normal_type(type_))]
    if not texts:
        return side
    match side:
        case ArrowSide():
            return _with_text(side.in_duckdb(), relaxations)
        case DuckDBSide():
            chosen = [
                f"{_in_duckdb(f'#{i + 1}', relaxations) if i in texts else f'#{i + 1}'} AS c{i}"
                for i in range(len(side.schema))
            ]
            return replace(side, relation=side.relation.project(", ".join(chosen)), plan=None)
        case _:
            from harness.differ.spark_side import with_text

            return with_text(_spark(side), texts, relaxations, _FOLDED)


def _in_duckdb(text: str, relaxations: Relaxations) -> str:
    text = f"CAST({text} AS VARCHAR)"
    if relaxations.trim:
        text = f"trim({text}, ' ')"
    if relaxations.null_as is not None:
        text = f"nullif({text}, {sqltext.text(relaxations.null_as)})"
    if relaxations.ignore_case:
        text = f"lower(translate({text}, '{_FOLDED[0]}', '{_FOLDED[1]}'))"
    return text


def _spark(side: Side) -> SparkSide:
    from harness.differ.spark_side import SparkSide

    assert isinstance(side, SparkSide)
    return side
