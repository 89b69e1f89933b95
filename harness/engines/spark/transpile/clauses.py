"""The clauses of SELECT: its items, including stars and UNNEST, and GROUP BY, ORDER BY, LIMIT, and OFFSET."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from harness.engines.spark.transpile import spark_text
from harness.engines.spark.transpile.expressions import Expressions
from harness.engines.spark.transpile.joins import NameScope, Output
from harness.engines.spark.transpile.ordered_aggregates import check_ordered, direction
from harness.engines.spark.transpile.spark_text import refusal
from harness.engines.spark.transpile.values import TypedSql, type_name
from harness.metadata.filters.sqltext import whole_number
from harness.metadata.model import schema as dt

NamedColumns = list[tuple[str | None, TypedSql]]
"""Expressions with their column names. The name is None if the column has none."""


def place_of(node: exp.Expr) -> int | None:
    """Return the number that an item of GROUP BY or ORDER BY consists of, or None."""
    return whole_number(node.name) if isinstance(node, exp.Literal) and not node.is_string else None


def items_of(order: exp.Expr | None, columns: tuple[Output, ...]) -> list[exp.Expr]:
    """Return the items of a query's ORDER BY. ORDER BY ALL becomes the numbers of all result columns."""
    items: list[exp.Expr] = [] if order is None else order.expressions
    if len(items) != 1 or not isinstance(items[0].this, exp.Var) or items[0].name.upper() != "ALL":
        return items
    numbered = [items[0].copy() for _ in columns]
    for place, item in enumerate(numbered, 1):
        item.set("this", exp.Literal.number(place))
    return numbered


def output_of(item: exp.Expr, columns: tuple[Output, ...]) -> Output | None:
    """Return the result column that an item of ORDER BY names or numbers, or None."""
    subject = item.this if isinstance(item, exp.Ordered) else item
    place = place_of(subject)
    if place is not None:
        if not 1 <= place <= len(columns):
            raise refusal(item, "a number in ORDER BY")
        return columns[place - 1]
    if not isinstance(subject, exp.Column) or len(subject.parts) > 1:
        return None
    matches = [c for c in columns if c.name is not None and c.name.casefold() == subject.name.casefold()]
    if len(matches) > 1:
        raise refusal(item, "an order by a name that several columns have")
    return matches[0] if matches else None


def by_output(item: exp.Expr, columns: tuple[Output, ...]) -> str:
    """Translate an item of ORDER BY that is a column of the result."""
    output = output_of(item, columns)
    if output is None:
        raise refusal(item, "an order by something other than a result column")
    check_ordered(item, output.type)
    return f"{output.sql}{direction(item)}"


def ends(items: list[str], node: exp.Expr) -> str:
    """Return ORDER BY with the items, LIMIT, and OFFSET of a query."""
    return (f" ORDER BY {', '.join(items)}" if items else "") + limits(node)


def limits(node: exp.Expr) -> str:
    """Return LIMIT and OFFSET of a query."""
    text = ""
    for key, word in (("limit", "LIMIT"), ("offset", "OFFSET")):
        clause = node.args.get(key)
        if clause is None:
            continue
        if isinstance(clause, exp.Fetch):
            options, rows = clause.args.get("limit_options"), clause.args.get("count")
            more = options is not None and (options.args.get("percent") or options.args.get("with_ties"))
        else:
            rows, more = clause.args.get("expression"), any(v for k, v in clause.args.items() if k != "expression")
        count = None if more or rows is None else place_of(rows)
        if count is None:
            raise refusal(clause, f"this {word}")
        text += f" {word} {count}"
    return text


# UNNEST in the projection yields rows for the elements of lists and columns for the fields of structs. Several lists of
# a row are unnested in parallel, padded with nulls; a row whose lists are all empty or null yields no row. WHERE is
# applied afterwards.


def unnest_calls(select: exp.Select) -> Iterator[exp.Explode]:
    """Yield the calls of UNNEST in the projection of a SELECT, without those in subqueries."""
    for item in select.expressions:
        for call in item.find_all(exp.Explode):
            if call.find_ancestor(exp.Select) is select:
                yield call


def in_two_steps(select: exp.Select) -> tuple[exp.Select, exp.Select] | None:
    """Split a SELECT that unnests results: an inner query with columns `h0`, `h1`, …, and a query over it.

    Return None if one query is enough.
    """
    if not _works_on_results(select):
        return None
    if select.args.get("distinct") is not None and select.args["distinct"].args.get("on") is not None:
        raise refusal(select, "DISTINCT ON with UNNEST of results", "choose the rows in an outer query")
    inside, around = [], []
    for place, item in enumerate(select.expressions):
        value, column = item.unalias(), exp.column(f"h{place}")
        is_call = isinstance(value, exp.Explode)
        is_several = _is_star(value.this if isinstance(value, exp.Like) else value) or item.find(exp.Columns)
        if is_several or (not is_call and value.find(exp.Explode) is not None):
            raise refusal(item, "this item with UNNEST of results", "name the columns, and compute in an outer query")
        call = value.copy() if is_call else exp.Paren(this=column)
        call.set("this", column)
        inside.append((value.this if is_call else item).copy())
        name = item.alias_or_name if isinstance(item, exp.Alias | exp.Column) else ""
        around.append(exp.alias_(call, name, quoted=True) if name else call)
    names = {item.alias_or_name.casefold() for item in around}
    for item in [] if select.args.get("order") is None else select.args["order"].expressions:
        if place_of(item.this) is None and item.this.name.casefold() not in {*names, "all"}:
            raise refusal(item, "this order with UNNEST of results", "order by a column of the result")
    parts = {key: select.args.get(key) for key in ("from_", "joins", "where", "group", "having", "qualify")}
    ends = {key: select.args.get(key) for key in ("distinct", "order", "limit", "offset")}
    return exp.Select(expressions=inside, **parts), exp.Select(expressions=around, **ends)


def _works_on_results(select: exp.Select) -> bool:
    """Return whether UNNEST applies to groups or windows instead of rows of FROM. A mixture is refused."""
    if not any(True for _ in unnest_calls(select)):
        return False
    windows = (w for item in select.expressions for w in item.find_all(exp.Window))
    with_windows = select.args.get("qualify") is not None or next(windows, None) is not None
    group = select.args.get("group")
    aggregated = any(isinstance(n, exp.AggFunc) for item in select.expressions for n in item.walk())
    if group is None and not aggregated:
        return with_windows
    keys = [] if group is None else [key.sql("duckdb").casefold() for key in group.expressions]
    are_keys = {
        bool({item.alias.casefold(), item.unalias().sql("duckdb").casefold(), str(place)} & set(keys))
        for place, item in enumerate(select.expressions, 1)
        if item.find(exp.Explode) is not None
    }
    if True not in are_keys:
        return True
    if with_windows or False in are_keys:
        raise refusal(select, "UNNEST of both keys and grouped values", "unnest in an outer query")
    return False


@dataclass(slots=True)
class Unnests:
    """The lists that one SELECT unnests.

    Attributes:
        alias: Spark's name of the relation with their elements.
        several: True if there may be several lists.
        lists: The expressions of the lists so far.
    """

    alias: str
    several: bool
    lists: list[str] = field(default_factory=list)

    def element(self, expressions: Expressions, node: exp.Explode) -> TypedSql:
        """Translate a call of UNNEST inside an expression."""
        _is_recursive(node)
        listed = expressions.translate(node.this)
        if not isinstance(listed.type, dt.ListType):
            raise refusal(node, f"unnest of {listed.type} inside of an expression")
        if listed.sql not in self.lists:
            self.lists.append(listed.sql)
        sql = f"TRY_ELEMENT_AT({listed.sql}, {self.alias}.e)" if self.several else f"{self.alias}.e"
        return TypedSql(sql, listed.type.element.type)

    def clause(self, source: str) -> str:
        """Return the clause to append to FROM and its joins. Empty if no list is unnested."""
        if not self.lists:
            return ""
        call = self.lists[0]
        if self.several:
            sizes = ", ".join(f"COALESCE(SIZE({listed}), 0)" for listed in self.lists)
            most = sizes if len(self.lists) == 1 else f"GREATEST({sizes})"
            call = f"CASE WHEN {most} > 0 THEN SEQUENCE(1, {most}) END"
        return f"{' CROSS JOIN LATERAL' if source else ' FROM'} EXPLODE({call}) AS {self.alias}(e)"


def _unnest(expressions: Expressions, node: exp.Explode) -> NamedColumns:
    """Return the columns for a call of UNNEST that is an item of the projection."""
    value, recursive = expressions.translate(node.this), _is_recursive(node)
    is_list = isinstance(value.type, dt.ListType)
    if is_list:
        value = expressions.translate(exp.Explode(this=node.this))
    elif not isinstance(value.type, dt.StructType):
        raise refusal(node, f"unnest of {value.type}")
    if recursive and _holds_list(value.type):
        raise refusal(node, f"a recursive unnest of {value.type}")
    if not isinstance(value.type, dt.StructType) or (is_list and not recursive):
        return [(None, value)]
    return _fields(value, value.type, recursive=recursive)


def _fields(value: TypedSql, type_: dt.StructType, *, recursive: bool) -> NamedColumns:
    columns: NamedColumns = []
    for item in type_.fields:
        inner = TypedSql(f"({value.sql}).{spark_text.name(item.name)}", item.type)
        if recursive and isinstance(item.type, dt.StructType):
            columns += _fields(inner, item.type, recursive=True)
        else:
            columns.append((item.name, inner))
    return columns


def _holds_list(type_: dt.Type) -> bool:
    match type_:
        case dt.ListType():
            return True
        case dt.StructType(fields=fields):
            return any(_holds_list(f.type) for f in fields)
        case _:
            return False


def _is_recursive(node: exp.Explode) -> bool:
    """Return whether a call has the argument `recursive := true`. Any other argument is refused."""
    for item in node.expressions:
        is_known = isinstance(item, exp.PropertyEQ) and item.this.name.lower() == "recursive"
        if not is_known or not isinstance(item.expression, exp.Boolean):
            raise refusal(node, "this unnest")
    return bool(node.expressions) and bool(node.expressions[0].expression.this)


def project(node: exp.Expr, scope: NameScope, expressions: Expressions) -> NamedColumns:
    """Return the columns of an item of the projection."""
    if _is_star(node):
        return _expand_star(node, scope, expressions)
    if isinstance(node, exp.Like) and _is_star(node.this):
        return [c for c in _expand_star(node.this, scope, expressions) if _is_like(node, c[0] or "")]
    if isinstance(node, exp.Explode):
        return _unnest(expressions, node)
    if node.find(exp.Columns) is not None:
        return _expand_columns_call(node, scope, expressions)
    if isinstance(node, exp.Alias):
        return [(node.alias, expressions.translate(node.this))]
    name = node.name if isinstance(node, exp.Column) else None
    return [(name, expressions.translate(node))]


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _expand_star(node: exp.Expr, scope: NameScope, expressions: Expressions) -> NamedColumns:
    """Return the columns of a star in DuckDB's order. A column of USING appears once, at its first place."""
    star = node.this if isinstance(node, exp.Column) else node
    if any(value for key, value in star.args.items() if key not in ("except_", "replace", "rename")):
        raise refusal(node, "this star")
    if any(isinstance(e, exp.Column) and e.table for e in star.args.get("except_") or ()):
        raise refusal(node, "a star without a column of one table", "write t.* EXCLUDE (…)")
    excluded_names = {e.name.casefold() for e in star.args.get("except_") or ()}
    replacements = {e.alias.casefold(): e.this for e in star.args.get("replace") or ()}
    new_names = {e.this.name.casefold(): e.alias for e in star.args.get("rename") or ()}
    star_columns = _all_columns(scope)
    if isinstance(node, exp.Column):
        relations = [s for s in scope.sources if s.name.casefold() == node.table.casefold()]
        star_columns = [(c.name, s.column(c)) for s in relations for c in s.columns]
    columns: NamedColumns = []
    for name, value in star_columns:
        key = (name or "").casefold()
        if key not in excluded_names:
            value = expressions.translate(replacements[key]) if key in replacements else value
            columns.append((new_names.get(key, name), value))
    return columns


_EACH = "a column of columns"


def _expand_columns_call(node: exp.Expr, scope: NameScope, expressions: Expressions) -> NamedColumns:
    """Return an expression that contains COLUMNS(…), once for each column that COLUMNS selects."""
    calls = list(node.find_all(exp.Columns))
    if any(call.this != calls[0].this for call in calls):
        raise refusal(node, "several different COLUMNS in one expression")
    columns: NamedColumns = []
    alias = node.alias if isinstance(node, exp.Alias) else None
    for name, value in _matching_columns(calls[0], scope, expressions):
        item = node.unalias().copy()
        each = exp.column(_EACH, quoted=True)
        if isinstance(item, exp.Columns):
            item = each
        for call in list(item.find_all(exp.Columns)):
            call.replace(each.copy())
        inner = replace(expressions, variables={**expressions.variables, _EACH: value})
        label = name if alias is None else None if "\\" in alias else alias
        columns.append((label, inner.translate(item)))
    return columns


def _matching_columns(call: exp.Columns, scope: NameScope, expressions: Expressions) -> NamedColumns:
    """Return the columns that COLUMNS(…) selects by a star, a list, a regular expression, or a lambda with LIKE."""
    argument = call.this
    if _is_star(argument):
        return _expand_star(argument, scope, expressions)
    all_columns = _all_columns(scope)
    match argument:
        case exp.Literal() if argument.is_string and re.fullmatch(r"[\w .*+?|()^$]*", argument.name, re.ASCII):
            return [c for c in all_columns if re.search(argument.name, c[0] or "") is not None]
        case exp.Array() if all(isinstance(e, exp.Literal) and e.is_string for e in argument.expressions):
            names = [e.name.casefold() for e in argument.expressions]
            return [c for name in names for c in all_columns if (c[0] or "").casefold() == name]
        case exp.Lambda(this=exp.Like(this=exp.Identifier()) as like):
            return [c for c in all_columns if _is_like(like, c[0] or "")]
        case _:
            raise refusal(call, "this choice of columns", "name them in a list, or use a simple regular expression")


def _is_like(node: exp.Like, name: str) -> bool:
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string or "\\" in pattern.name:
        raise refusal(node)
    parts = {"%": ".*", "_": "."}
    fits = re.fullmatch("".join(parts.get(c, re.escape(c)) for c in pattern.name), name, re.DOTALL) is not None
    return fits is not bool(node.args.get("negate"))


def _all_columns(scope: NameScope) -> NamedColumns:
    columns: NamedColumns = []
    merged_keys: set[str] = set()
    for source in scope.sources:
        for column in source.columns:
            key = (column.name or "").casefold()
            if key not in scope.merged:
                columns.append((column.name, source.column(column)))
            elif key not in merged_keys:
                columns.append((column.name, scope.merged[key]))
                merged_keys.add(key)
    return columns


_SETS: dict[type[exp.Expr], str] = {exp.Rollup: "ROLLUP", exp.Cube: "CUBE", exp.GroupingSets: "GROUPING SETS"}


def group_by(node: exp.Select, scope: NameScope, expressions: Expressions, outputs: Sequence[TypedSql]) -> str:
    """Return the GROUP BY clause, or an empty text.

    Args:
        node: The SELECT.
        scope: Its names.
        expressions: Translates its expressions.
        outputs: The projection, for items that are numbers.
    """
    group = node.args.get("group")
    if group is None:
        return ""
    if any(value for key, value in group.args.items() if key not in ("all", "expressions")):
        raise refusal(group)
    texts = [_item(item, expressions, outputs) for item in group.expressions]
    for item in node.expressions if group.args.get("all") else ():  # GROUP BY ALL: every item without an aggregate
        if item.find(exp.Window, exp.Query) is not None:
            raise refusal(item, "GROUP BY ALL with a window function or a subquery")
        counts = any(call.name.lower() == "count_star" for call in item.find_all(exp.Anonymous))
        if not counts and item.find(exp.AggFunc) is None:
            texts += [_no_ordinal(v) for _, v in project(item, scope, expressions)]
    return f" GROUP BY {', '.join(dict.fromkeys(texts))}" if texts else ""


def _item(node: exp.Expr, expressions: Expressions, outputs: Sequence[TypedSql]) -> str:
    """Translate a key, which may be a number, or several sets of keys."""
    word = _SETS.get(type(node))
    if word is None:
        place = place_of(node)
        if place is None:
            return _no_ordinal(expressions.translate(node))
        if not 1 <= place <= len(outputs):
            raise refusal(node, "a number in GROUP BY")
        return _no_ordinal(outputs[place - 1])
    items = []
    for inner in node.expressions:
        if isinstance(inner, exp.Tuple):
            items.append(f"({', '.join(_item(key, expressions, outputs) for key in inner.expressions)})")
        else:
            items.append(_item(inner, expressions, outputs))
    return f"{word} ({', '.join(items)})"


def _no_ordinal(value: TypedSql) -> str:
    """Return a key. A constant is cast, so that Spark does not read it as the number of a column."""
    return value.sql if value.literal is None else f"CAST({value.sql} AS {type_name(value.type)})"
