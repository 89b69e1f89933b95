"""What follows a query: ORDER BY over the columns of its result, LIMIT and OFFSET."""

from __future__ import annotations

from sqlglot import exp

from harness.metadata.filters.value_texts import whole_number
from harness.queries.transpile.expressions import Expressions
from harness.queries.transpile.ordering import ordered
from harness.queries.transpile.scopes import Output
from harness.queries.transpile.spark_text import refused
from harness.queries.transpile.values import Typed


def place_of(node: exp.Expr) -> int | None:
    """The number that an item of GROUP BY or ORDER BY is."""
    return whole_number(node.name) if isinstance(node, exp.Literal) and not node.is_string else None


def items_of(order: exp.Expr | None, columns: tuple[Output, ...]) -> list[exp.Expr]:
    """The items of a query's ORDER BY; ALL is every column of the result, by its number."""
    items: list[exp.Expr] = [] if order is None else order.expressions
    if len(items) != 1 or not isinstance(items[0].this, exp.Var) or items[0].name.upper() != "ALL":
        return items
    found = []
    for place in range(1, len(columns) + 1):
        item = items[0].copy()
        item.set("this", exp.Literal.number(place))
        found.append(item)
    return found


def output_of(item: exp.Expr, columns: tuple[Output, ...]) -> Output | None:
    """The column of the result that an item of ORDER BY is, by its number or its name."""
    subject = item.this if isinstance(item, exp.Ordered) else item
    place = place_of(subject)
    if place is not None:
        if not 1 <= place <= len(columns):
            raise refused(item, "a number in ORDER BY")
        return columns[place - 1]
    if isinstance(subject, exp.Column) and len(subject.parts) == 1:
        named = [c for c in columns if c.name is not None and c.name.casefold() == subject.name.casefold()]
        if len(named) > 1:
            raise refused(item, "an order by one of several columns of a name")
        return named[0] if named else None
    return None


def by_output(item: exp.Expr, columns: tuple[Output, ...]) -> str:
    """An item of ORDER BY that is a column of the result. Raises UnsupportedError."""
    output = output_of(item, columns)
    if output is None:
        raise refused(item, "an order by what is no column of the result")
    return ordered(Expressions(lambda _: Typed(output.sql, output.type)), _with_subject(item))


def _with_subject(item: exp.Expr) -> exp.Expr:
    """The item with a plain column in it, whose name means nothing."""
    if not isinstance(item, exp.Ordered):
        return exp.column("c")
    item = item.copy()
    item.set("this", exp.column("c"))
    return item


def order_by(items: list[str]) -> str:
    """The clause for its items; none without."""
    return f" ORDER BY {', '.join(items)}" if items else ""


def limits(node: exp.Expr) -> str:
    """LIMIT and OFFSET of a query. Raises UnsupportedError."""
    text = ""
    for key, word in (("limit", "LIMIT"), ("offset", "OFFSET")):
        clause = node.args.get(key)
        if clause is None:
            continue
        count = _count(clause)
        if count is None:
            raise refused(clause, f"this {word}")
        text += f" {word} {count}"
    return text


def _count(clause: exp.Expr) -> int | None:
    """How many rows LIMIT, OFFSET or FETCH says; None: it says another thing too, or no number."""
    if isinstance(clause, exp.Fetch):
        options = clause.args.get("limit_options")
        more = options is not None and (options.args.get("percent") or options.args.get("with_ties"))
        return None if more or clause.args.get("count") is None else place_of(clause.args["count"])
    more = any(v for k, v in clause.args.items() if k != "expression")
    return None if more or not isinstance(clause, exp.Limit | exp.Offset) else place_of(clause.expression)
