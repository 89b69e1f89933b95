"""Version 1 of the protocol between the suite and a reader under test in any language.

The reader is a program. It reads JSON objects from standard input, one per line, and answers each with a line on
standard output. `protocol.json` is the schema of requests and answers, and every answer is validated.
`docs/suite/reader-protocol.md` contains complete readers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import sqlglot
from sqlglot import exp

from harness import errors
from harness.errors import HarnessError
from harness.metadata.model import schema as dt
from harness.metadata.model.schema import Schema
from harness.suite.json_rows import excerpt
from harness.suite.scenarios.values import parse_value

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


def message_fault(message: object, kind: str) -> str | None:
    """Return the first fault of a message in words, or None if the message conforms to the protocol.

    `kind` is the name of a definition in the schema, for example `read answer`.
    """
    return schema_fault(message, kind, schema(), "the answer" if kind.endswith("answer") else "the request")


@cache
def schema() -> dict[str, Any]:
    """Return the JSON schema of all messages."""
    document: dict[str, object] = json.loads(_SCHEMA.read_text("utf-8"))
    return document


def schema_fault(value: object, kind: str, schema: Mapping[str, Any], place: str) -> str | None:
    """Return the first fault of a value in words, or None if it conforms to a definition of a JSON schema.

    Args:
        value: The value.
        kind: The name of the definition.
        schema: A JSON schema that uses only the keywords of the protocol's schema.
        place: The name of the value in the message.
    """
    return _fault(value, schema["$defs"][kind], schema["$defs"], place)


def _fault(value: object, rule: Mapping[str, Any], definitions: Mapping[str, Any], place: str) -> str | None:
    if "$ref" in rule:
        return _fault(value, definitions[rule["$ref"].rpartition("/")[2]], definitions, place)
    if "anyOf" in rule:
        faults = [_fault(value, each, definitions, place) for each in rule["anyOf"]]
        return None if None in faults else " or ".join(dict.fromkeys(filter(None, faults)))
    if "enum" in rule:
        allowed = [json.dumps(each) for each in rule["enum"]]
        return None if json.dumps(value) in allowed else f"{place} is {excerpt(value)}, not {' or '.join(allowed)}"
    types = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
    classes = [each for name in types for each in _TYPES[name]]
    if type(value) not in classes:
        return f"{place} is {excerpt(value)}, not {' or '.join(types)}"
    if isinstance(value, list) and "items" in rule:
        item_faults = (
            _fault(item, rule["items"], definitions, f"{place}, item {i},") for i, item in enumerate(value, 1)
        )
        return next(filter(None, item_faults), None)
    if not isinstance(value, dict) or "properties" not in rule:
        return None
    properties = rule["properties"]
    if missing := [name for name in rule["required"] if name not in value]:
        return f"{place} has no {missing[0]!r}"
    unknown = sorted(value.keys() - properties.keys())
    if unknown and rule.get("additionalProperties") is False:
        return f"{place} has a key {unknown[0]!r}, which the protocol does not define"
    value_faults = (
        _fault(value[name], properties[name], definitions, f"{name!r} of {place}")
        for name in value
        if name in properties
    )
    return next(filter(None, value_faults), None)


UNSUPPORTED = "unsupported-feature"
ERROR_CLASSES: Mapping[str, str] = {
    UNSUPPORTED: "legal, but the reader does not support it",
    "corrupt-metadata": "the metadata cannot be decoded, or violates the specification",
    "corrupt-data": "a data file cannot be decoded, or is not the file that the metadata describes",
    "corrupt-deletes": "a delete file or deletion vector is damaged, or contradicts the data",
    "schema-mismatch": "the columns of a file cannot be converted to the table's columns",
    "missing-file": "the metadata names a file that does not exist",
    "not-found": "the table, snapshot, version, branch, or tag does not exist, or not at that time",
    "invalid-request": "the table does not have the column or does not support the read",
    "forbidden-file": "the metadata names a file outside the allowed directories",
    "limit": "the table exceeds a limit of the reader",
    "failed": "any other error",
}
"""The classes of errors that cases expect, with their meanings. A reader may use other classes."""
_CLASS_BY_CAUSE = {
    "CorruptDataFile": "corrupt-data",
    "CorruptDeletionVector": "corrupt-deletes",
    "CorruptManifest": "corrupt-metadata",
    "LogCorrupt": "corrupt-metadata",
}
_CLASS_BY_TYPE: Mapping[type[errors.HarnessError], str] = {
    errors.RequestError: "invalid-request",
    errors.SnapshotNotFoundError: "not-found",
    errors.TableNotFoundError: "not-found",
    errors.InvalidTableError: "corrupt-metadata",
    errors.CorruptFileError: "corrupt-data",
    errors.CorruptDeleteError: "corrupt-deletes",
    errors.SchemaMismatchError: "schema-mismatch",
    errors.MissingFileError: "missing-file",
    errors.OutsideTableError: "forbidden-file",
    errors.UnsupportedError: UNSUPPORTED,
    errors.LimitError: "limit",
}


def error_class(kind: str, cause: str | None = None) -> str:
    """Return the neutral class for a class of `harness.errors`, by its name and optionally its cause.

    A neutral class is returned unchanged.
    """
    if kind in ERROR_CLASSES:
        return kind
    bases: tuple[type, ...] = getattr(errors, kind).__mro__
    by_class = next((_CLASS_BY_TYPE[each] for each in bases if each in _CLASS_BY_TYPE), "failed")
    return _CLASS_BY_CAUSE.get(cause or "", by_class)


_COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "not-eq",
    exp.LT: "lt",
    exp.LTE: "lt-eq",
    exp.GT: "gt",
    exp.GTE: "gt-eq",
}
_MIRRORED = {"lt": "gt", "lt-eq": "gt-eq", "gt": "lt", "gt-eq": "lt-eq"}
_SAME_TEXT = (exp.DataType.Type.DATE, exp.DataType.Type.DECIMAL, exp.DataType.Type.UUID)
"""Types whose literals have the same text in SQL and in JSON."""
_MOMENTS = {False: exp.DataType.Type.TIMESTAMPNTZ, True: exp.DataType.Type.TIMESTAMPTZ}
"""The types of TIMESTAMP (False) and TIMESTAMPTZ (True) in DuckDB's dialect."""
_BYTES = re.compile(r"(?:\\x[0-9a-fA-F]{2})*")


class _NotExpressible(Exception):
    """A part of a filter that Iceberg's expressions cannot represent."""


def predicate(where: str | None, columns: Schema | None = None) -> dict[str, object] | None:
    """Return the filter as JSON of Iceberg's REST catalog (`Expression`).

    Args:
        where: A boolean expression in DuckDB's dialect.
        columns: The columns, whose types are needed to write times and bytes.

    Returns:
        The expression, or None if there is no filter or JSON cannot represent it.
    """
    if where is None:
        return None
    types = {} if columns is None else {".".join(path): field.type for path, field in columns.walk()}
    try:
        return _expression(sqlglot.parse_one(where, dialect="duckdb"), types)
    except (sqlglot.ParseError, HarnessError, _NotExpressible):
        return None


def _expression(node: exp.Expr, types: Mapping[str, dt.Type], negated: bool = False) -> dict[str, object]:
    match node:
        case exp.Paren():
            return _expression(node.this, types, negated)
        case exp.Not():
            return _expression(node.this, types, not negated)
        case exp.And() | exp.Or():
            kind = {"and": "or", "or": "and"}[node.key] if negated else node.key
            left, right = (_expression(side, types, negated) for side in (node.left, node.right))
            return {"type": kind, "left": left, "right": right}
        case exp.Between() if not node.args.get("symmetric"):
            low = exp.GTE(this=node.this, expression=node.args["low"])
            high = exp.LTE(this=node.this, expression=node.args["high"])
            return _expression(exp.And(this=low, expression=high), types, negated)
        case _:
            expression = _column_test(node, types)
    negated = negated != bool(node.args.get("negate"))  # for NOT LIKE
    if expression["type"] == "is-null":
        return {"type": "not", "child": expression} if negated else expression
    if not negated and expression["type"] != "not-eq":
        return expression
    # SQL drops nulls here, but Iceberg's `not-eq` and `not` are true for null.
    is_not_null = {"type": "not", "child": {"type": "is-null", "term": expression["term"]}}
    return {
        "type": "and",
        "left": {"type": "not", "child": expression} if negated else expression,
        "right": is_not_null,
    }


def _column_test(node: exp.Expr, types: Mapping[str, dt.Type]) -> dict[str, object]:
    """Return the expression for a test of one column."""
    match node:
        case exp.Column() if isinstance(types.get(_term(node)), dt.BooleanType):
            return {"type": "eq", "term": _term(node), "value": True}
        case exp.Is() if isinstance(node.expression, exp.Null):
            return {"type": "is-null", "term": _term(node.this)}
        case exp.IsNan():
            return {"type": "is-nan", "term": _term(node.this)}
        case exp.In() if node.expressions:
            term = _term(node.this)
            return {
                "type": "in",
                "term": term,
                "values": [_literal(each, types.get(term)) for each in node.expressions],
            }
        case exp.StartsWith():
            return {"type": "starts-with", "term": _term(node.this), "value": _literal(node.expression, None)}
        case exp.Like():
            return {"type": "starts-with", "term": _term(node.this), "value": _prefix(node.expression)}
        case exp.Binary() if type(node) in _COMPARISONS:
            kind, left, right = _COMPARISONS[type(node)], node.left, node.right
            if not isinstance(left, exp.Column):
                kind, left, right = _MIRRORED.get(kind, kind), right, left
            return {"type": kind, "term": _term(left), "value": _literal(right, types.get(_term(left)))}
        case _:
            raise _NotExpressible


def _term(node: exp.Expr) -> str:
    if not isinstance(node, exp.Column):
        raise _NotExpressible
    return ".".join(part.name for part in node.parts)


def _prefix(pattern: exp.Expr) -> str:
    """Return the text before the only wildcard of a LIKE pattern, which must be at its end."""
    text = pattern.name if isinstance(pattern, exp.Literal) and pattern.is_string else ""
    if not text.endswith("%") or any(sign in text[:-1] for sign in "%_"):
        raise _NotExpressible
    return text[:-1]


def _literal(node: exp.Expr, type_: dt.Type | None) -> Any:
    match node:
        case exp.Boolean():
            return bool(node.this)
        case exp.Neg(this=exp.Literal(is_string=False) as number):
            return -_literal(number, type_)
        case exp.Literal(is_string=True):
            return node.name
        case exp.Literal():
            value = int(node.name) if node.name.isdigit() else float(node.name)
            if Decimal(repr(value)) != Decimal(node.name):  # it has more digits than a double
                raise _NotExpressible
            return value
        case exp.Cast(this=exp.Literal(is_string=True) as text):
            return _cast(text.name, node.to.this, type_)
        case _:
            raise _NotExpressible


def _cast(text: str, sql: object, type_: dt.Type | None) -> str:
    """Return a literal of a named type in the form of Iceberg's single-value serialization."""
    if sql in _SAME_TEXT:
        return text
    if (
        sql is exp.DataType.Type.VARBINARY
        and isinstance(type_, dt.BinaryType | dt.FixedType)
        and _BYTES.fullmatch(text)
    ):
        return text.replace("\\x", "").lower()
    match type_:
        case dt.TimeType(unit=unit) if sql is exp.DataType.Type.TIME:
            return str(np.datetime64(parse_value(type_, text), unit)).partition("T")[2]
        case dt.TimestampType(unit=unit, utc=utc) if sql is _MOMENTS[utc]:
            return f"{np.datetime64(parse_value(type_, text), unit)}{'+00:00' if utc else ''}"
        case _:
            raise _NotExpressible
