"""UNION, INTERSECT, EXCEPT, by place or by name."""

from __future__ import annotations

from sqlglot import exp

from harness.queries.transpile.refusal import refused
from harness.queries.transpile.relations import Lowered, as_types
from harness.queries.transpile.scopes import Output
from harness.queries.transpile.values import Typed, common_type, type_name

_WORDS: dict[type[exp.Expr], str] = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}


def combined(node: exp.SetOperation, left: Lowered, right: Lowered) -> Lowered:
    """The operation over both sides, each column in the type that they have in common. Raises UnsupportedError."""
    word = _WORDS[type(node)]
    if node.args.get("by_name"):
        left, right = _by_name(node, left, right)
    if len(left.columns) != len(right.columns):
        raise refused(node, "a set operation of different numbers of columns")
    types = [
        common_type([Typed("", a.type), Typed("", b.type)], word)
        for a, b in zip(left.columns, right.columns, strict=True)
    ]
    columns = tuple(Output(c.name, t, c.sql) for c, t in zip(left.columns, types, strict=True))
    sides = [as_types(side, types) for side in (left, right)]
    all_ = "" if node.args.get("distinct") else " ALL"
    return Lowered(f"SELECT * FROM (({sides[0]}) {word}{all_} ({sides[1]}))", columns)


def _by_name(node: exp.Expr, left: Lowered, right: Lowered) -> tuple[Lowered, Lowered]:
    """Both sides with the columns of either, nulls in what they lack."""
    sides = []
    for side in (left, right):
        named = {c.name.casefold(): c for c in side.columns if c.name is not None}
        if len(named) < len(side.columns):
            raise refused(node, "BY NAME of columns without a name of their own", "name them with AS")
        sides.append(named)
    every = {**sides[1], **sides[0]}
    order = [*sides[0], *(name for name in sides[1] if name not in sides[0])]
    aligned = []
    for side, named in zip((left, right), sides, strict=True):
        columns, parts = [], []
        for place, name in enumerate(order):
            of = every[name]
            value = named[name].sql if name in named else f"CAST(NULL AS {type_name(of.type)})"
            columns.append(Output(of.name, named[name].type if name in named else of.type, f"c{place}"))
            parts.append(f"{value} AS c{place}")
        aligned.append(Lowered(f"SELECT {', '.join(parts)} FROM ({side.sql})", tuple(columns)))
    return aligned[0], aligned[1]
