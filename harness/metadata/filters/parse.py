"""Filters from SQL text: a boolean expression over a table's columns becomes a `Filter`.

Engines run the user's own text, in which only the column names are replaced by the schema's spelling in quotes.
(Generating the text from the parsed form changes the meaning of some operators: sqlglot 30 turns DuckDB's `~`, which
matches a whole string, into a search.) Only conditions from another dialect are generated. The parts that planning
cannot use stay in the text and are `Undecided` in the predicate.

sqlglot parses filters as well as queries. The first filter of a process costs 0.1 s of CPU (sqlglot 30.30: 53 ms for
its import, 45 ms for its DuckDB dialect; its compiled form imports more slowly). DuckDB's `json_serialize_sql` would
take 5 ms. It is not used because formats do not import duckdb, and because conditions of queries are sqlglot trees, so
that a second translation as large as this one would be needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from sqlglot import TokenType, exp
from sqlglot.errors import ErrorLevel, SqlglotError

from harness.errors import RequestError
from harness.metadata.filters.literal_comparison import covering_ranges, share_type, uncast_kinds
from harness.metadata.filters.literals import (
    Literal,
    LiteralKind,
    general_form,
    literal_of,
    sqlglot_dialect,
    without_parentheses,
)
from harness.metadata.filters.operands import Operand, compare, compare_literals, field_of, operand_of, tag_field
from harness.metadata.filters.predicate import (
    IN_LIMIT,
    Comparison,
    Constant,
    Filter,
    In,
    IsNan,
    IsNull,
    Op,
    Or,
    Predicate,
    StartsWith,
    Undecided,
    conjunction,
    disjunction,
    negate,
)
from harness.metadata.filters.sqltext import ColumnNames, ResolvedPath, refuse_half_characters
from harness.metadata.model.schema import METADATA, BooleanType, Field, FloatType, Schema, StringType

_TURNED = {exp.EQ: exp.EQ, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}
_MARGIN_DAYS = 4
"""A margin for moved dates: months differ by up to three days, and time zones move days by some hours."""
_FIRST, _LAST = "0001-01-01", "9999-12-31"


def unshifted(condition: exp.Expr) -> exp.Expr | None:
    """Return a condition on the column alone that is implied by a comparison of a moved column, or None.

    A moved column is a column plus or minus an interval or a number of days. The returned condition is also true if the
    move might fail. A move can fail only close to the ends of the calendar, so all values outside the years 1 to 9999
    satisfy the condition. The type of the column does not matter: an interval can only be added to a date, timestamp,
    or instant, and if a number is added and the result is compared with a moment, the column is a date.

    Args:
        condition: A comparison of a column with a literal.
    """
    kind = type(condition)
    if kind not in _TURNED:
        return None
    left, right = condition.this, condition.expression
    if literal_of(right) is None:
        left, right, kind = right, left, _TURNED[kind]
    literal, shift = literal_of(right), _shifted_column(left)
    if literal is None or shift is None or literal.kind not in (LiteralKind.DATE, LiteralKind.TIMESTAMP):
        return None
    column, interval, back = shift

    def end(compare: type[exp.Expr], wider: type[exp.Expr]) -> exp.Expr:
        moment = exp.Paren(this=back(this=right.copy(), expression=interval))
        return compare(this=column.copy(), expression=wider(this=moment, expression=_days(_MARGIN_DAYS)))

    ends = [] if kind in (exp.LT, exp.LTE) else [end(exp.GTE, exp.Sub)]
    ends += [] if kind in (exp.GT, exp.GTE) else [end(exp.LTE, exp.Add)]
    out_of_range = [
        exp.LT(this=column.copy(), expression=_date(_FIRST)),
        exp.GT(this=column.copy(), expression=_date(_LAST)),
    ]
    return exp.or_(exp.and_(*ends, copy=False), *out_of_range, copy=False)


def _shifted_column(node: exp.Expr) -> tuple[exp.Expr, exp.Interval, type[exp.Add | exp.Sub]] | None:
    """Return a moved column, the interval, and the operator that moves a literal back, or None."""
    while isinstance(node, exp.Paren):
        node = node.this
    left, right = node.this, node.args.get("expression")
    match node:
        case exp.Add() if type(node) is exp.Add and isinstance(left, exp.Interval):
            left, right = right, left
        case exp.Add() | exp.Sub() if type(node) in (exp.Add, exp.Sub):
            pass
        case _:
            return None
    if not isinstance(left, exp.Column | exp.Dot):
        return None
    if not isinstance(right, exp.Interval):
        days = None if right is None else literal_of(right)
        if days is None or days.kind is not LiteralKind.INTEGER:
            return None
        right = _days(days.value)
    return left, right.copy(), exp.Sub if type(node) is exp.Add else exp.Add


def _days(count: int) -> exp.Interval:
    return exp.Interval(this=exp.Literal.string(str(count)), unit=exp.Var(this="DAY"))


def _date(text: str) -> exp.Expr:
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType(this=exp.DType.DATE, nested=False))


_OPS: dict[type[exp.Expr], Op] = {
    exp.EQ: Op.EQ,
    exp.NEQ: Op.NE,
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.GT: Op.GT,
    exp.GTE: Op.GE,
}
_IS_FORMS = (exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ)
"""DuckDB's `=` binds more strongly than `IS`, so these are operands of a comparison only in parentheses. sqlglot 30.8
reads `TRUE = n IS NOT DISTINCT FROM 0` as `TRUE = (n IS NOT DISTINCT FROM 0)`."""
_FLIPPED = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.GT: Op.LT, Op.LE: Op.GE, Op.GE: Op.LE}


def predicate_of(node: exp.Expr) -> Predicate:
    """Return the predicate for a condition whose columns have been marked by `tag_field`."""
    if general_form(type(node)) is not None:
        return Undecided()
    match node:
        case exp.Paren():
            return predicate_of(node.this)
        case exp.Not():
            return negate(predicate_of(node.this))
        case exp.And():
            return conjunction(tuple(predicate_of(part) for part in node.flatten()))
        case exp.Or():
            return disjunction(tuple(predicate_of(part) for part in node.flatten()))
        case exp.Boolean():
            return Constant(bool(node.this))
        case exp.Null():
            return Constant(None)
        case _:
            leaf = _leaf(node)
            return negate(leaf) if node.args.get("negate") else leaf


def _leaf(node: exp.Expr) -> Predicate:
    match node:
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            if isinstance(node.this, _IS_FORMS) or isinstance(node.expression, _IS_FORMS):
                return Undecided()
            predicate = _comparison(node.this, _OPS[type(node)], node.expression)
            weaker = unshifted(node) if isinstance(predicate, Undecided) else None
            return predicate if weaker is None else conjunction((predicate_of(weaker), Undecided()))
        case exp.NullSafeEQ():
            return _not_distinct(node)
        case exp.NullSafeNEQ():
            return negate(_not_distinct(node))
        case exp.Is():
            return _is(node)
        case exp.In() if isinstance(node.args.get("field"), exp.Array):
            return _in_array(node.this, node.args["field"])
        case exp.In():
            return _in(node)
        case exp.Between():
            return _between(node)
        case exp.Like():
            return _like(node)
        case exp.StartsWith():
            return _starts_with(node.this, node.expression)
        case exp.Anonymous() if node.name.lower() == "prefix" and len(node.expressions) == 2:
            return _starts_with(*node.expressions)
        case exp.ArrayContains():
            return _in_array(node.expression, without_parentheses(node.this))
        case exp.Case() | exp.If():
            return _compare_expression(node, Op.EQ, Literal(LiteralKind.BOOLEAN, True))
        case exp.IsNan():
            field = field_of(node.this)
            return IsNan(field) if field is not None and isinstance(field.type, FloatType) else Undecided()
        case _:
            field = field_of(node)
            is_boolean = field is not None and isinstance(field.type, BooleanType)
            return Comparison(field, Op.EQ, True) if field is not None and is_boolean else Undecided()


def _comparison(left: exp.Expr, op: Op, right: exp.Expr) -> Predicate:
    if op is Op.EQ and isinstance(right, exp.Any):
        return _in_array(left, without_parentheses(right.this))
    if op is Op.EQ and isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
        # Equal rows have equal parts, and null equals null inside a row.
        if len(left.expressions) != len(right.expressions):
            return Undecided()
        pairs = zip(left.expressions, right.expressions, strict=True)
        parts = [_not_distinct(exp.NullSafeEQ(this=a.copy(), expression=b.copy())) for a, b in pairs]
        return conjunction((*parts, Undecided()))
    operand, literal = operand_of(left), literal_of(right)
    if operand is None and literal is None:
        left, right, op = right, left, _FLIPPED[op]
        operand, literal = operand_of(left), literal_of(right)
    if literal is None:
        return Undecided()
    return _compare_expression(left, op, literal) if operand is None else compare(operand, op, literal)


def _compare_expression(node: exp.Expr, op: Op, literal: Literal) -> Predicate:
    """Compare an expression that is not a column: a condition, or a CASE or IF."""
    node = without_parentheses(node)
    match node:
        case exp.Case():
            cases = [(case.this, case.args["true"]) for case in node.args["ifs"]]
            if node.this is not None:
                cases = [(exp.EQ(this=node.this.copy(), expression=when.copy()), then) for when, then in cases]
            return _compare_case(cases, node.args.get("default"), op, literal)
        case exp.If():
            return _compare_case([(node.this, node.args["true"])], node.args.get("false"), op, literal)
        case _ if op is Op.EQ and literal == Literal(LiteralKind.BOOLEAN, True):
            return conjunction((predicate_of(node), Undecided()))
        case _:
            return Undecided()


def _compare_case(
    cases: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr | None, op: Op, literal: Literal
) -> Predicate:
    """Compare `CASE WHEN … THEN …` with a literal. Any case with a value that may satisfy the comparison may match."""
    values = [literal_of(value) for _, value in cases]
    others = [] if default is None else [literal_of(default)]
    non_nulls = [value for value in (*values, *others) if value is not None and value.kind is not LiteralKind.NULL]
    if None in values or None in others or any(value.kind is not literal.kind for value in non_nulls):
        return Undecided()
    if any(_may_hold(value, op, literal) for value in others):
        return Undecided()
    conditions = [
        predicate_of(when) for (when, _), value in zip(cases, values, strict=True) if _may_hold(value, op, literal)
    ]
    return conjunction((disjunction(tuple(conditions)) if conditions else Constant(False), Undecided()))


def _may_hold(value: Literal | None, op: Op, literal: Literal) -> bool:
    return (
        value is not None and value.kind is not LiteralKind.NULL and compare_literals(value, op, literal) is not False
    )


def _in_array(item: exp.Expr, values: exp.Expr) -> Predicate:
    """Return the predicate for `item IN [...]`, `= ANY(values)`, or `list_contains(values, item)`.

    These conditions can only be true if `item IN (...)` is true. All values must have the type of the column.
    """
    field = field_of(item)
    if field is None or not isinstance(values, exp.Array):
        return Undecided()
    literals = [literal_of(value) for value in values.expressions]
    kinds = uncast_kinds(field.type) | ({LiteralKind.STRING} if isinstance(field.type, StringType) else set())
    non_nulls = [literal for literal in literals if literal is not None and literal.kind is not LiteralKind.NULL]
    if None in literals or not non_nulls or not {literal.kind for literal in non_nulls} <= kinds:
        return Undecided()
    return conjunction((_in_literals(field, non_nulls), Undecided()))


def _not_distinct(node: exp.Expr) -> Predicate:
    field, literal = field_of(node.this), literal_of(node.expression)
    if field is None:
        field, literal = field_of(node.expression), literal_of(node.this)
    if field is None or literal is None:
        return Undecided()
    if literal.kind is LiteralKind.NULL:
        return IsNull(field)
    return conjunction((IsNull(field, negated=True), compare(field, Op.EQ, literal)))


def _is(node: exp.Expr) -> Predicate:
    field, value = field_of(node.this), node.expression
    if field is None:
        is_true = isinstance(value, exp.Boolean) and value.this
        return conjunction((predicate_of(node.this), Undecided())) if is_true else Undecided()
    if isinstance(value, exp.Null):
        return IsNull(field)
    if isinstance(value, exp.Boolean) and isinstance(field.type, BooleanType):
        return conjunction((IsNull(field, negated=True), Comparison(field, Op.EQ, bool(value.this))))
    return Undecided()


def _in(node: exp.Expr) -> Predicate:
    operand = operand_of(node.this)
    literals = [literal_of(item) for item in node.expressions]
    items = [item for item in literals if item is not None]
    is_listed = not any(node.args.get(key) for key in ("query", "unnest", "field"))
    if operand is None or not items or len(items) < len(literals) or not is_listed or not share_type(operand, items):
        return Undecided()
    return _in_literals(operand, items)


def _in_literals(operand: Operand, literals: Sequence[Literal]) -> Predicate:
    parts = [compare(operand, Op.EQ, item) for item in literals]
    if not isinstance(operand, Field):
        return disjunction(tuple(parts))
    values = tuple(dict.fromkeys(p.value for p in parts if isinstance(p, Comparison)))
    others = tuple(dict.fromkeys(p for p in parts if not isinstance(p, Comparison)))
    if len(values) > IN_LIMIT:
        return disjunction((conjunction((In(operand, values), covering_ranges(operand, values))), *others))
    return disjunction((In(operand, values), *others) if values else others)


def _between(node: exp.Expr) -> Predicate:
    operand = operand_of(node.this)
    low, high = literal_of(node.args["low"]), literal_of(node.args["high"])
    if (
        operand is None
        or low is None
        or high is None
        or node.args.get("symmetric")
        or not share_type(operand, (low, high))
    ):
        return Undecided()
    return conjunction((compare(operand, Op.GE, low), compare(operand, Op.LE, high)))


def _like(node: exp.Expr) -> Predicate:
    pattern = literal_of(node.expression)
    if pattern is None or pattern.kind is not LiteralKind.STRING:
        return Undecided()
    prefix = pattern.value.rstrip("%")
    # A backslash is an escape character in some dialects only.
    if any(special in prefix for special in "%_\\"):
        return Undecided()
    field = field_of(node.this)
    if prefix == pattern.value and field is not None and isinstance(field.type, StringType):
        return Comparison(field, Op.EQ, prefix)
    return _starts_with(node.this, exp.Literal.string(prefix))


def _starts_with(column: exp.Expr, prefix: exp.Expr) -> Predicate:
    field, literal = field_of(column), literal_of(prefix)
    if field is None or literal is None or not isinstance(field.type, StringType):
        return Undecided()
    if literal.kind is LiteralKind.NULL:
        return Constant(None)
    if literal.kind is not LiteralKind.STRING:
        return Undecided()
    if not literal.value:
        return Or((IsNull(field, negated=True), Constant(None)))
    return StartsWith(field, literal.value)


_TOO_DEEP = "The filter is nested too deeply. Write it with IN or BETWEEN, or with fewer NOTs."

NamePath: TypeAlias = tuple[exp.Expr, tuple[exp.Identifier, ...]]
"""A column reference: its outermost node, and its identifiers from left to right."""


def paths_of(condition: exp.Expr) -> Iterator[NamePath]:
    """Yield every reference to a column. Variables of lambdas and list comprehensions are left out."""
    for node in condition.find_all(exp.Column, exp.Dot):
        inner = node.this
        if isinstance(node, exp.Column):
            identifiers = tuple(part for part in node.parts if isinstance(part, exp.Identifier))
            if identifiers and not _is_variable(node, identifiers[0].name):
                yield _extend_path(node, identifiers)
        # In `name.upper()`, sqlglot has a bare identifier instead of a column.
        elif isinstance(inner, exp.Identifier) and not _is_variable(node, inner.name):
            yield _extend_path(inner, (inner,))


def _extend_path(node: exp.Expr, identifiers: tuple[exp.Identifier, ...]) -> NamePath:
    """Extend a path by the fields that follow it, up to a method call."""
    parent = node.parent
    while isinstance(parent, exp.Dot) and parent.this is node and isinstance(parent.expression, exp.Identifier):
        node, identifiers = parent, (*identifiers, parent.expression)
        parent = node.parent
    return node, identifiers


def _is_variable(node: exp.Expr, name: str) -> bool:
    ancestor = node.parent
    while ancestor is not None:
        if isinstance(ancestor, exp.Lambda) and any(v.name == name for v in ancestor.expressions):
            return True
        if isinstance(ancestor, exp.Comprehension) and ancestor.expression.name == name:
            return True
        ancestor = ancestor.parent
    return False


def parse_filter(sql: str, schema: Schema, *, table: str | None = None) -> Filter:
    """Parse a filter: a condition in DuckDB's SQL over the columns of a schema and the metadata columns.

    A name refers to the column of the same spelling. If there is none, it refers to the only column that differs in
    case alone, as in DuckDB (iceberg 5.21). A column of the table hides a metadata column of the same name (iceberg
    5.19). `a.b` is the field b of the struct a, or else the column b of the table a.

    Args:
        sql: The text of the condition.
        schema: The schema of the table.
        table: A table name that may precede column names.

    Raises:
        RequestError: The text is not an expression, or it is more than a condition on one row (a subquery, an
            aggregate, or a window function).
        UnknownColumnError: No column, or more than one, has a name in the text.
    """
    refuse_half_characters(sql, "filter")
    try:
        condition, text = _parse(sql)
        return _filter(condition, text, schema, ColumnNames(schema=schema, table=table, is_condition=True))
    except RecursionError:
        raise RequestError(_TOO_DEEP) from None


def text_and_names(sql: str) -> tuple[str, list[str]]:
    """Return the text of a filter in DuckDB's SQL, and the names of its columns as spelled, each once.

    The text has no trailing comment or semicolon.

    Raises:
        RequestError: The text is not an expression, or it is more than a condition on one row.
    """
    refuse_half_characters(sql, "filter")
    try:
        condition, text = _parse(sql)
        _refuse_more_than_rows(condition)
        return text, list(dict.fromkeys(identifiers[0].name for _, identifiers in paths_of(condition)))
    except RecursionError:
        raise RequestError(_TOO_DEEP) from None


def filter_of(condition: exp.Expr, schema: Schema) -> Filter:
    """Return the filter for a parsed condition without table names. Its text is generated.

    Raises:
        UnknownColumnError: No column, or more than one, has a name in the condition.
    """
    return _filter(condition.copy(), None, schema, ColumnNames(schema=schema, table=None))


def _parse(sql: str) -> tuple[exp.Expr, str]:
    """Return the parsed condition and its text without trailing comments and semicolons."""
    try:
        read = sqlglot_dialect("duckdb")
        tokens = read.tokenize(sql)
        while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            tokens.pop()
        if not tokens:
            raise RequestError("The filter is empty. Leave it out to read all rows.")
        text = sql[: tokens[-1].end + 1]
        parsed = read.parse_into(exp.Condition, text)
    except (SqlglotError, ValueError) as error:
        raise RequestError(f"Cannot parse the filter as duckdb SQL: {reason(error)}.") from error
    if len(parsed) != 1 or parsed[0] is None:
        raise RequestError("The filter must be one boolean expression, such as: id > 5 AND name = 'a'.")
    return parsed[0], text


def reason(error: Exception) -> str:
    """Return the text of an error of the SQL parser in one line, without the final period."""
    for detail in getattr(error, "errors", ()):
        description = detail["description"].partition(" for <class")[0]
        return f"{description} at line {detail['line']}, near '{detail['highlight']}'"
    return str(error).split("\n")[0].rstrip(".")


def _refuse_more_than_rows(condition: exp.Expr) -> None:
    for node in condition.walk():
        match node:
            case exp.Query() | exp.Exists():
                problem = "a subquery"
            case exp.Window():
                problem = "a window function"
            case exp.AggFunc():
                problem = f"the aggregate {node.sql_name()}"
            case exp.Placeholder() | exp.Parameter():
                problem = "a parameter"
            case exp.Pseudocolumn():
                problem = f"the pseudo-column {node.name}"
            case exp.Star() | exp.Columns():
                problem = "a star"
            case _:
                continue
        raise RequestError(f"A filter is a condition on one row, got {problem}. Use it in a query instead.")


def _filter(condition: exp.Expr, text: str | None, schema: Schema, names: ColumnNames) -> Filter:
    _refuse_more_than_rows(condition)
    paths = list(paths_of(condition))
    resolved = [names.resolve(tuple(i.name for i in identifiers)) for _, identifiers in paths]
    for (node, _), path in zip(paths, resolved, strict=True):
        tag_field(node, path.leaf)
    predicate = predicate_of(condition)
    columns_by_id = {r.fields[0].id: r.fields[0] for r in resolved}
    columns = tuple(f for f in (*schema.fields, *METADATA.values()) if columns_by_id.get(f.id) is f)
    sql = _generate_sql(condition, paths, resolved) if text is None else _replace_names(text, paths, resolved)
    return Filter(sql=sql, predicate=predicate, columns=columns)


def _replace_names(text: str, paths: list[NamePath], resolved: list[ResolvedPath]) -> str:
    edits = [
        (identifiers[0].meta["start"], identifiers[-1].meta["end"] + 1, path.sql())
        for (_, identifiers), path in zip(paths, resolved, strict=True)
    ]
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text.strip()


def _generate_sql(condition: exp.Expr, paths: list[NamePath], resolved: list[ResolvedPath]) -> str:
    root = exp.Paren(this=condition)
    for (column_node, _), path in zip(paths, resolved, strict=True):
        first, *others = (*(f.name for f in path.fields), *path.rest)
        node: exp.Expr = exp.column(exp.to_identifier(first, quoted=True))
        for index, name in enumerate(others):
            base = exp.Paren(this=node) if index == 0 else node
            node = exp.Dot(this=base, expression=exp.to_identifier(name, quoted=True))
        column_node.replace(node)
    try:
        return str(root.this.sql("duckdb", comments=False, unsupported_level=ErrorLevel.RAISE))
    except SqlglotError as error:
        raise RequestError(f"Cannot translate the filter to DuckDB's dialect: {reason(error)}.") from error
