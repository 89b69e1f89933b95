"""Protocol 1 between the suite and a reader under test, in whatever language the reader is written.

The reader is a program that gets a JSON object a line on standard input and answers each by a line on standard output.
`protocol.json` is the schema of both, and every answer is held to it. `docs/reference/reader-protocol.md` shows whole
readers.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

PROTOCOL = 1
_SCHEMA = Path(__file__).with_name("protocol.json")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def fault(message: object, kind: str) -> str | None:
    """The first fault of a message, in words; None: the message is as the protocol has it.

    kind: `read answer`, and so on: a name of the schema's definitions.
    """
    return _fault(message, {"$ref": f"#/$defs/{kind}"}, "the answer" if kind.endswith("answer") else "the request")


@cache
def schema() -> dict[str, Any]:
    """The JSON schema of all messages."""
    document: dict[str, Any] = json.loads(_SCHEMA.read_text("utf-8"))
    return document


def _fault(value: Any, rule: Mapping[str, Any], place: str) -> str | None:
    """The first fault by the keywords that the schema uses."""
    if "$ref" in rule:
        return _fault(value, schema()["$defs"][rule["$ref"].rpartition("/")[2]], place)
    if "anyOf" in rule:
        faults = [_fault(value, each, place) for each in rule["anyOf"]]
        return None if None in faults else " or ".join(dict.fromkeys(filter(None, faults)))
    if "enum" in rule:
        allowed = [json.dumps(each) for each in rule["enum"]]
        return None if json.dumps(value) in allowed else f"{place} is {_shown(value)}, not {' or '.join(allowed)}"
    types = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
    classes = [each for name in types for each in _TYPES[name]]
    if type(value) not in classes:
        return f"{place} is {_shown(value)}, not {' or '.join(types)}"
    if isinstance(value, list):
        found = (_fault(item, rule["items"], f"{place}, item {i},") for i, item in enumerate(value, 1))
        return next(filter(None, found), None)
    if not isinstance(value, dict) or "properties" not in rule:
        return None
    if missing := [name for name in rule["required"] if name not in value]:
        return f"{place} has no {missing[0]!r}"
    if unknown := sorted(value.keys() - rule["properties"].keys()):
        return f"{place} has a key {unknown[0]!r}, which the protocol does not know"
    found = (_fault(value[name], rule["properties"][name], f"{name!r} of {place}") for name in value)
    return next(filter(None, found), None)


def _shown(value: Any) -> str:
    return json.dumps(value)[:60]


def json_lines_table(text: str, wanted: pa.Schema | None) -> pa.Table:
    """The table of rows that are JSON objects, one a line, with values as the suite's expected rows have them.

    wanted: the types of the columns, by name. A column without one is JSON text.

    Raises ValueError, TypeError, ArithmeticError, pyarrow.ArrowException: a line is no object, or a value does not fit
    its type.
    """
    rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    if wrong := [row for row in rows if not isinstance(row, dict)]:
        raise ValueError(f"a row is {_shown(wrong[0])}, not an object by the names of columns")
    known = [] if wanted is None else wanted.names
    names = list(dict.fromkeys([*(rows[0] if rows else known), *(name for row in rows for name in row)]))
    columns = {}
    for name in names:
        values = [row[name] if name in row else _absent(name, row) for row in rows]
        type_ = wanted.field(name).type if wanted is not None and name in known else None
        columns[name] = pa.array(map(json.dumps, values)) if type_ is None else _array(values, type_)
    return pa.table(columns) if columns else pa.table({"": pa.nulls(len(rows))}).select([])


def _absent(name: str, row: Mapping[str, Any]) -> Any:
    raise ValueError(f"the row {_shown(row)} has no {name!r}, which another row has; null is written as null")


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    found = [None if value is None else _value(value, type_) for value in values]
    if isinstance(type_, pa.UuidType):
        return pa.ExtensionArray.from_storage(type_, pa.array(found, type_.storage_type))
    return pa.array(found, type_)


def _value(value: Any, type_: pa.DataType) -> Any:
    """A value as `harness.testing.scenarios.answers.json_value` writes it, as `pyarrow.array` takes it."""
    kind = pa.types
    if value is None:
        return None
    if isinstance(type_, pa.UuidType):
        return uuid.UUID(value).bytes
    if kind.is_struct(type_):
        return {field.name: _value(value[field.name], field.type) for field in type_}
    if kind.is_map(type_):
        return [(_value(key, type_.key_type), _value(item, type_.item_type)) for key, item in value]
    if kind.is_list(type_):
        return [_value(item, type_.value_type) for item in value]
    if kind.is_decimal(type_):
        return Decimal(value)
    if kind.is_binary(type_) or kind.is_fixed_size_binary(type_):
        return bytes.fromhex(value)
    return float(value) if kind.is_floating(type_) else value


_COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "not-eq",
    exp.LT: "lt",
    exp.LTE: "lt-eq",
    exp.GT: "gt",
    exp.GTE: "gt-eq",
}
_SAME_TEXT = (exp.DataType.Type.DATE, exp.DataType.Type.DECIMAL, exp.DataType.Type.UUID)
"""Types whose literals are the same text in SQL and in JSON."""
_TURNED = {"lt": "gt", "lt-eq": "gt-eq", "gt": "lt", "gt-eq": "lt-eq"}


class _Unsayable(Exception):
    """A part that Iceberg's expressions have no word for."""


def predicate(where: str | None) -> dict[str, Any] | None:
    """The filter as JSON of Iceberg's REST catalog (`Expression`); None: no filter, or none that JSON can say.

    where: a boolean expression in DuckDB's dialect.
    """
    if where is None:
        return None
    try:
        return _expression(sqlglot.parse_one(where, dialect="duckdb"))
    except (sqlglot.ParseError, _Unsayable):
        return None


def _expression(node: exp.Expr) -> dict[str, Any]:
    match node:
        case exp.Paren():
            return _expression(node.this)
        case exp.And() | exp.Or():
            return {"type": node.key, "left": _expression(node.left), "right": _expression(node.right)}
        case exp.Not():
            return {"type": "not", "child": _expression(node.this)}
        case exp.Is() if isinstance(node.expression, exp.Null):
            return {"type": "is-null", "term": _term(node.this)}
        case exp.In() if node.expressions:
            return {"type": "in", "term": _term(node.this), "values": [_literal(each) for each in node.expressions]}
        case exp.Between():
            term, low, high = _term(node.this), _literal(node.args["low"]), _literal(node.args["high"])
            bounds = [{"type": kind, "term": term, "value": each} for kind, each in (("gt-eq", low), ("lt-eq", high))]
            return {"type": "and", "left": bounds[0], "right": bounds[1]}
        case exp.StartsWith():
            return {"type": "starts-with", "term": _term(node.this), "value": _literal(node.expression)}
        case exp.Binary() if type(node) in _COMPARISONS:
            kind, left, right = _COMPARISONS[type(node)], node.left, node.right
            if not isinstance(left, exp.Column):
                kind, left, right = _TURNED.get(kind, kind), right, left
            return {"type": kind, "term": _term(left), "value": _literal(right)}
        case _:
            raise _Unsayable


def _term(node: exp.Expr) -> str:
    if not isinstance(node, exp.Column):
        raise _Unsayable
    return ".".join(part.name for part in node.parts)


def _literal(node: exp.Expr) -> Any:
    match node:
        case exp.Boolean():
            return bool(node.this)
        case exp.Neg(this=exp.Literal(is_string=False) as number):
            return -_literal(number)
        case exp.Literal(is_string=True):
            return node.name
        case exp.Literal():
            value = int(node.name) if node.name.isdigit() else float(node.name)
            if Decimal(repr(value)) != Decimal(node.name):  # of more digits than a double has
                raise _Unsayable
            return value
        case exp.Cast(this=exp.Literal(is_string=True) as text) if node.to.this in _SAME_TEXT:
            return text.name
        case _:
            raise _Unsayable
