"""Names with a schema in front, `sales.orders`, and columns behind them, `sales.orders.id`.

What stands in a table's place is a subquery, and a subquery's alias has no schema. So it goes by the last part of the
name, and so do its columns: `orders.id`. DuckDB tells two tables of one FROM apart by their schemas; where their last
parts are alike, the alias is the whole name, in quotes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from harness.errors import RequestError
from harness.queries.sources import select_of
from harness.queries.statements import Reference, Statement
from harness.records import dataclass


@dataclass(frozen=True, slots=True)
class ColumnPrefix:
    """Where a statement has a table's qualified name before a column, and what stands there from now on."""

    start: int
    end: int
    alias: str


def shorten(statement: Statement, found: Sequence[Reference]) -> list[ColumnPrefix]:
    """Lets tables with a schema, and their columns, go by an alias; changes the tree accordingly.

    Args:
        found: the references that views will stand for.

    Returns:
        Where columns of them are named with their schema.

    Raises:
        RequestError: a column may be of two tables whose names end alike.
    """
    short = [reference for reference in found if len(reference.name) > 1 and not reference.node.alias]
    clashing = [reference for reference in short if _is_clashing(reference.node, statement.tree)]
    for reference in clashing:
        _refuse_short_names(reference, statement.tree)
    for reference in clashing:
        whole = exp.to_identifier(".".join(reference.name), quoted=True)
        reference.node.set("alias", exp.TableAlias(this=whole))
    columns = list(statement.tree.find_all(exp.Column)) if short else []
    return [prefix for column in columns if (prefix := _shortened(column, short)) is not None]


def _is_clashing(table: exp.Table, tree: exp.Expr) -> bool:
    select = select_of(table)
    return any(select_of(other) is select for other in _others(table, tree))


def _others(table: exp.Table, tree: exp.Expr) -> list[exp.Expr]:
    """What goes by the same name as the table."""
    alike = (exp.Table, exp.Subquery)
    name = table.alias_or_name.casefold()
    return [other for other in tree.find_all(*alike) if other is not table and other.alias_or_name.casefold() == name]


def _refuse_short_names(reference: Reference, tree: exp.Expr) -> None:
    last = reference.name[-1]
    for column in tree.find_all(exp.Column):
        if len(column.parts) < 3 and column.parts[0].name.casefold() == last.casefold():
            raise RequestError(
                f"Column {'.'.join(part.name for part in column.parts)} may be of two tables named {last}: write "
                f"{'.'.join(reference.name)} before it, or give the tables aliases"
            )


def _shortened(column: exp.Column, tables: Collection[Reference]) -> ColumnPrefix | None:
    parts = column.parts
    for length in range(len(parts), 1, -1):
        reference = _nearest(column, tuple(part.name.casefold() for part in parts[:length]), tables)
        if reference is None:
            continue
        start, end = int(parts[0].meta["start"]), int(parts[length - 1].meta["end"]) + 1
        alias = reference.node.alias_or_name
        left = [exp.to_identifier(alias, quoted=True), *parts[length:]]
        for key, part in zip(("this", "table", "db", "catalog"), [*reversed(left), *[None] * 3], strict=False):
            column.set(key, part)
        return ColumnPrefix(start, end, alias)
    return None


def _nearest(column: exp.Column, qualifier: tuple[str, ...], tables: Collection[Reference]) -> Reference | None:
    """The table of the innermost SELECT around the column that the qualifier may name."""
    between: list[exp.Select] = []
    select = column.find_ancestor(exp.Select)
    while select is not None:
        for reference in tables:
            if select_of(reference.node) is select and _names(qualifier, reference.name):
                _refuse_hidden(column, reference, between)
                return reference
        between.append(select)
        select = select.find_ancestor(exp.Select)
    return None


def _refuse_hidden(column: exp.Column, reference: Reference, between: Sequence[exp.Select]) -> None:
    """In a subquery that has another table of the same last name, the alias would mean that one."""
    if any(select_of(other) in between for other in _others(reference.node, column.root())):
        name = ".".join(part.name for part in column.parts)
        raise RequestError(f"Column {name} may be of two tables named {reference.name[-1]}: give the tables aliases")


def _names(qualifier: tuple[str, ...], name: tuple[str, ...]) -> bool:
    """Whether one is the end of the other: `sales.orders` names `prod.sales.orders`, and the other way round."""
    folded = tuple(part.casefold() for part in name)
    shared = min(len(qualifier), len(folded))
    return qualifier[-shared:] == folded[-shared:]
