"""Filters from SQL text: a boolean expression over a table's columns becomes a `Filter`.

The text is kept as the user wrote it; only the names of columns are replaced by the schema's spelling in quotes, so
that what the engine runs is what was asked. (Generating the text anew from the parsed form changes the meaning of some
operators: sqlglot 30 turns DuckDB's `~`, which matches a whole string, into a search.) Text in another dialect has to
be translated. What planning cannot use stays in the text and is `Undecided` in the predicate.
"""

from __future__ import annotations

from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError

from harness.errors import RequestError
from harness.filters.column_names import Names, Resolved
from harness.filters.column_references import Path, paths_of
from harness.filters.literal_comparison import DayOf, Operand, PeriodOf, compare, share_type
from harness.filters.literals import Kind, literal_of
from harness.filters.predicate import (
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
from harness.filters.sql_nodes import general_form
from harness.model.metadata_columns import METADATA
from harness.model.schema import (
    BooleanType,
    DateType,
    Field,
    FloatType,
    IntegerType,
    Schema,
    StringType,
    TimestampType,
)


def parse_filter(
    sql: str, schema: Schema, *, dialect: str = "duckdb", case_sensitive: bool = True, table: str | None = None
) -> Filter:
    """The filter that `sql` asks for: a boolean expression over the columns of `schema` and the metadata columns.

    A name means the column of that very spelling; where there is none, the one column that differs only in case, as
    DuckDB would have it. With `case_sensitive` false, spelling never decides (iceberg 5.21). A column of the table
    hides a metadata column of its name (iceberg 5.19). `a.b` is field b of the struct a, else column b of the table a.

    Args:
        dialect: the name that sqlglot gives to the dialect of `sql`; the filter's own text is DuckDB's.
        table: a name that may stand before column names.

    Raises:
        RequestError: the text is no expression, or more than a condition on one row (subquery, aggregate, window).
        UnknownColumnError: a name that no column has, or that several have.
    """
    condition, text = _parse(sql, dialect)
    try:
        return _filter(condition, text, schema, Names(schema=schema, case_sensitive=case_sensitive, table=table))
    except RecursionError:
        raise RequestError(
            "The filter is nested too deeply. Write it with IN or BETWEEN, or with fewer NOTs."
        ) from None


def filter_of(condition: exp.Expr, schema: Schema) -> Filter:
    """The filter that a parsed condition makes, whose columns stand without a table's name; its text is generated.

    Raises:
        UnknownColumnError: a name that no column has, or that several have.
    """
    return _filter(condition.copy(), None, schema, Names(schema=schema, case_sensitive=True, table=None))


_FIELD = "harness field"


# Parsing.


def _parse(sql: str, dialect: str) -> tuple[exp.Expr, str | None]:
    """The condition, and its text if that is DuckDB's already; both without comments at the end."""
    try:
        language = Dialect.get_or_raise(dialect)
        tokens = language.tokenize(sql)
        while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            tokens.pop()
        if not tokens:
            raise RequestError("The filter is empty. Leave it out to read all rows.")
        text = sql[: tokens[-1].end + 1]
        parsed = language.parse_into(exp.Condition, text)
    except (SqlglotError, ValueError) as error:
        raise RequestError(f"Cannot parse the filter as {dialect} SQL: {reason(error)}.") from error
    except RecursionError:
        raise RequestError(
            "The filter is nested too deeply. Write it with IN or BETWEEN, or with fewer NOTs."
        ) from None
    if len(parsed) != 1 or parsed[0] is None:
        raise RequestError("The filter must be one boolean expression, such as: id > 5 AND name = 'a'.")
    return parsed[0], text if dialect == "duckdb" else None


def reason(error: Exception) -> str:
    """What an error of the SQL parser says, in one line without a full stop."""
    for detail in getattr(error, "errors", ()):
        return f"{detail['description']} at line {detail['line']}, near '{detail['highlight']}'"
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


# Building the filter.


def _filter(condition: exp.Expr, text: str | None, schema: Schema, names: Names) -> Filter:
    _refuse_more_than_rows(condition)
    paths = list(paths_of(condition))
    resolved = [names.resolve(path.names) for path in paths]
    for path, found in zip(paths, resolved, strict=True):
        path.node.meta[_FIELD] = found.leaf
    predicate = _predicate(condition)
    used = {r.fields[0].id: r.fields[0] for r in resolved}
    columns = tuple(f for f in (*schema.fields, *METADATA.values()) if used.get(f.id) is f)
    sql = _generated(condition, paths, resolved) if text is None else _spliced(text, paths, resolved)
    return Filter(sql=sql, predicate=predicate, columns=columns)


def _spliced(text: str, paths: list[Path], resolved: list[Resolved]) -> str:
    edits = [
        (p.identifiers[0].meta["start"], p.identifiers[-1].meta["end"] + 1, r.sql())
        for p, r in zip(paths, resolved, strict=True)
    ]
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text.strip()


def _generated(condition: exp.Expr, paths: list[Path], resolved: list[Resolved]) -> str:
    root = exp.Paren(this=condition)
    for path, found in zip(paths, resolved, strict=True):
        first, *others = (*(f.name for f in found.fields), *found.rest)
        node: exp.Expr = exp.column(exp.to_identifier(first, quoted=True))
        for index, name in enumerate(others):
            base = exp.Paren(this=node) if index == 0 else node
            node = exp.Dot(this=base, expression=exp.to_identifier(name, quoted=True))
        path.node.replace(node)
    try:
        return str(root.this.sql("duckdb", comments=False, unsupported_level=ErrorLevel.RAISE))
    except SqlglotError as error:
        raise RequestError(f"Cannot translate the filter to DuckDB's dialect: {reason(error)}.") from error


# The predicate of a condition.

_OPS: dict[type[exp.Expr], Op] = {
    exp.EQ: Op.EQ,
    exp.NEQ: Op.NE,
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.GT: Op.GT,
    exp.GTE: Op.GE,
}
_FLIPPED = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.GT: Op.LT, Op.LE: Op.GE, Op.GE: Op.LE}


def _predicate(node: exp.Expr) -> Predicate:
    if general_form(type(node)) is not None:
        return Undecided()
    match node:
        case exp.Paren():
            return _predicate(node.this)
        case exp.Not():
            return negate(_predicate(node.this))
        case exp.And():
            return conjunction(tuple(_predicate(part) for part in node.flatten()))
        case exp.Or():
            return disjunction(tuple(_predicate(part) for part in node.flatten()))
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
            return _comparison(node.this, _OPS[type(node)], node.expression)
        case exp.NullSafeEQ():
            return _not_distinct(node)
        case exp.NullSafeNEQ():
            return negate(_not_distinct(node))
        case exp.Is():
            return _is(node)
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
        case exp.IsNan():
            field = _field(node.this)
            return IsNan(field) if field is not None and isinstance(field.type, FloatType) else Undecided()
        case _:
            field = _field(node)
            is_boolean = field is not None and isinstance(field.type, BooleanType)
            return Comparison(field, Op.EQ, True) if field is not None and is_boolean else Undecided()


def _field(node: exp.Expr) -> Field | None:
    while isinstance(node, exp.Paren):
        node = node.this
    field = node.meta.get(_FIELD)
    return field if isinstance(field, Field) else None


def _operand(node: exp.Expr) -> Operand | None:
    """A column, or one under a cast that comparisons see through."""
    while isinstance(node, exp.Paren):
        node = node.this
    period = _period(node)
    if period is not None:
        return period
    # As TRY_CAST: none of the casts below can fail.
    if not isinstance(node, exp.Cast) or type(node) not in (exp.Cast, exp.TryCast):
        return _field(node)
    field = _field(node.this)
    if field is None or node.args.get("format") is not None or type(node.to) is not exp.DataType:
        return None
    match field.type, node.to.this:
        case TimestampType(unit="us"), exp.DType.DATE:
            return DayOf(field)
        case DateType(), exp.DType.DATE:
            return field
        case StringType(), (exp.DType.VARCHAR | exp.DType.TEXT):
            return field
        case IntegerType(bits=(8 | 16 | 32)), (exp.DType.INT | exp.DType.BIGINT):
            return field
        case IntegerType(bits=64), exp.DType.BIGINT:
            return field
        case _:
            return None


def _period(node: exp.Expr) -> PeriodOf | None:
    match node:
        case exp.Year():
            of, unit = node.this, "YEAR"
        case exp.Extract() if node.name.upper() in ("YEAR", "YEARS"):
            of, unit = node.expression, "YEAR"
        case exp.TimestampTrunc() | exp.DateTrunc() if isinstance(node.args.get("unit"), exp.Var):
            of, unit = node.this, node.args["unit"].name.upper()
        case _:
            return None
    field = _field(of)
    if field is None or not isinstance(field.type, DateType | TimestampType):
        return None
    # DuckDB 2.0 gives other times than midnight for the hour of a date.
    if isinstance(field.type, DateType) and unit.removesuffix("S") in ("HOUR", "MINUTE", "SECOND"):
        return None
    # The year of an instant depends on the session's zone; nanoseconds have functions of their own.
    if isinstance(field.type, TimestampType) and (field.type.utc or field.type.unit != "us"):
        return None
    return PeriodOf(field, unit, is_number=not isinstance(node, exp.TimestampTrunc | exp.DateTrunc))


def _comparison(left: exp.Expr, op: Op, right: exp.Expr) -> Predicate:
    operand, literal = _operand(left), literal_of(right)
    if operand is None:
        operand, literal, op = _operand(right), literal_of(left), _FLIPPED[op]
    return Undecided() if operand is None or literal is None else compare(operand, op, literal)


def _not_distinct(node: exp.Expr) -> Predicate:
    field, literal = _field(node.this), literal_of(node.expression)
    if field is None:
        field, literal = _field(node.expression), literal_of(node.this)
    if field is None or literal is None:
        return Undecided()
    if literal.kind is Kind.NULL:
        return IsNull(field)
    return conjunction((IsNull(field, negated=True), compare(field, Op.EQ, literal)))


def _is(node: exp.Expr) -> Predicate:
    field, value = _field(node.this), node.expression
    if field is None:
        return Undecided()
    if isinstance(value, exp.Null):
        return IsNull(field)
    if isinstance(value, exp.Boolean) and isinstance(field.type, BooleanType):
        return conjunction((IsNull(field, negated=True), Comparison(field, Op.EQ, bool(value.this))))
    return Undecided()


def _in(node: exp.Expr) -> Predicate:
    operand = _operand(node.this)
    literals = [literal_of(item) for item in node.expressions]
    known = [item for item in literals if item is not None]
    is_listed = not any(node.args.get(key) for key in ("query", "unnest", "field"))
    if operand is None or not known or len(known) < len(literals) or not is_listed or not share_type(operand, known):
        return Undecided()
    parts = [compare(operand, Op.EQ, item) for item in known]
    values = tuple(p.value for p in parts if isinstance(p, Comparison))
    others = tuple(p for p in parts if not isinstance(p, Comparison))
    if values and isinstance(operand, Field):
        return disjunction((In(operand, values), *dict.fromkeys(others)))
    return disjunction(tuple(parts))


def _between(node: exp.Expr) -> Predicate:
    operand = _operand(node.this)
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
    if pattern is None or pattern.kind is not Kind.STRING:
        return Undecided()
    prefix = pattern.value.rstrip("%")
    # A backslash escapes in some dialects and not in others.
    if any(special in prefix for special in "%_\\"):
        return Undecided()
    field = _field(node.this)
    if prefix == pattern.value and field is not None and isinstance(field.type, StringType):
        return Comparison(field, Op.EQ, prefix)
    return _starts_with(node.this, exp.Literal.string(prefix))


def _starts_with(column: exp.Expr, prefix: exp.Expr) -> Predicate:
    field, literal = _field(column), literal_of(prefix)
    if field is None or literal is None or not isinstance(field.type, StringType):
        return Undecided()
    if literal.kind is Kind.NULL:
        return Constant(None)
    if literal.kind is not Kind.STRING:
        return Undecided()
    if not literal.value:
        return Or((IsNull(field, negated=True), Constant(None)))
    return StartsWith(field, literal.value)
