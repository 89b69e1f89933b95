"""How many rows of a table a query needs at most: `SELECT … FROM orders LIMIT 5` is content with any five."""

from __future__ import annotations

from sqlglot import exp

from harness.filters.value_texts import whole_number

_CLAUSES = frozenset({"expressions", "from_", "limit", "offset"})
_ROW_BY_ROW = (
    exp.Add,
    exp.Alias,
    exp.Boolean,
    exp.Cast,
    exp.Column,
    exp.DataType,
    exp.Div,
    exp.Dot,
    exp.Identifier,
    exp.Literal,
    exp.Mod,
    exp.Mul,
    exp.Neg,
    exp.Null,
    exp.Paren,
    exp.Star,
    exp.Sub,
)
"""What gives one row for each row. A function may gather rows, or spread them, and the user may have made it."""


def rows_needed(tree: exp.Expr, table: exp.Table) -> int | None:
    """How many rows of `table`, whichever they are, make the query's result; None: that cannot be told, so all.

    tree: the whole query. table: the place where it reads the table.
    """
    if not isinstance(tree, exp.Select) or not _said(tree) <= _CLAUSES:
        return None
    source = tree.args.get("from_")
    if source is None or source.this is not table or not _said(table) <= {"this", "alias"}:
        return None
    if not all(isinstance(node, _ROW_BY_ROW) for item in tree.expressions for node in item.walk()):
        return None
    limit, offset = _number(tree.args.get("limit")), _number(tree.args.get("offset"), none=0)
    return None if limit is None or offset is None else limit + offset


def _said(node: exp.Expr) -> set[str]:
    return {name for name, value in node.args.items() if value}


def _number(clause: exp.Expr | None, none: int | None = None) -> int | None:
    if clause is None:
        return none
    said = clause.args.get("expression")
    if not isinstance(clause, exp.Limit | exp.Offset) or _said(clause) != {"expression"}:
        return None
    return whole_number(said.this) if isinstance(said, exp.Literal) and not said.is_string else None
