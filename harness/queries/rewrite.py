"""Rewriting of queries over bound tables: each mention of a table becomes a view with a filter that skips files.

The query keeps its conditions and its text. Only table names are replaced, including the table names that qualify
columns.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING

from sqlglot import Token, TokenType, exp
from sqlglot.errors import ErrorLevel, SqlglotError

from harness.errors import RequestError
from harness.metadata.filters.literals import sqlglot_dialect
from harness.metadata.filters.parse import reason
from harness.metadata.filters.sqltext import quoted, refuse_half_characters, whole_number
from harness.metadata.model.schema import METADATA, Schema
from harness.queries import parameters
from harness.queries.outputs import select_of
from harness.queries.plain import Rewritten, TableReference
from harness.queries.pushdown import Pushdown, references_now
from harness.storage.records import dataclass

if TYPE_CHECKING:
    from harness.metadata.catalogs.catalog import Name


_EXPLAIN = re.compile(r"\s*EXPLAIN(\s+ANALYZE)?(\s*\(\s*(FORMAT|ANALYZE)\b[^()]*\))?\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlStatement:
    """A parsed statement.

    Attributes:
        explain: A leading `EXPLAIN` with its options and the space after it, or an empty text.
        text: The rest, without semicolons and comments at the end. Positions of tree nodes refer to it.
        tree: The syntax tree.
        dialect: The dialect, by sqlglot's name.
    """

    explain: str
    text: str
    tree: exp.Expr
    dialect: str


@dataclass(frozen=True, slots=True)
class Reference:
    """A place where a statement names a table that no WITH clause defines."""

    node: exp.Table

    @property
    def name(self) -> tuple[str, ...]:
        """The parts of the name as written, without quotes."""
        return tuple(part.name for part in self.node.parts)

    @property
    def start(self) -> int:
        """The start of the name in the statement's text."""
        return int(self.node.parts[0].meta["start"])

    @property
    def end(self) -> int:
        """The position after the end of the name."""
        return int(self.node.parts[-1].meta["end"]) + 1


def parse_statement(query: str, dialect: str = "duckdb") -> SqlStatement:
    """Parse a text that contains one statement.

    Raises:
        RequestError: The text cannot be parsed, or does not contain exactly one statement.
    """
    match = _EXPLAIN.match(query)
    explain = "" if match is None else match[0]
    try:
        tree, text = _parse(query[len(explain) :], dialect)
    except (SqlglotError, ValueError) as error:
        problem = _duckdb_parse_error(query) if dialect == "duckdb" else None
        problem = problem or RequestError(f"Cannot parse the query as {dialect} SQL: {reason(error)}.")
        if has_older_parser():
            version = metadata.version("sqlglot")
            older = f"sqlglot {version} is installed; 30.30 can parse more, for example NEAREST and TABLE t"
            problem = RequestError(f"{problem.message} ({older})", excerpt=problem.excerpt)
        raise problem from error
    return SqlStatement(explain=explain, text=text, tree=tree, dialect=dialect)


def _duckdb_parse_error(text: str) -> RequestError | None:
    """Return DuckDB's error for a text that it cannot parse, or None if it can."""
    from harness.engines.duckdb.relations import parse_error

    return parse_error(text)


def has_older_parser() -> bool:
    """Return whether the installed sqlglot is older than 30.30.

    Older versions cannot parse some SQL, for example NEAREST and `TABLE t`.
    """
    return tuple(map(int, metadata.version("sqlglot").split(".")[:2])) < (30, 30)


def quote_of(dialect: str) -> Callable[[str], str]:
    """Return a function that quotes names for Spark, or for DuckDB if the dialect is any other."""
    return quoted if dialect != "spark" else lambda name: "`" + name.replace("`", "``") + "`"


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with the edits applied."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def closing_bracket(tokens: Sequence[Token], opening: int) -> int:
    """Return the index after the parenthesis that closes the parenthesis at an index.

    Raises:
        ValueError: No parenthesis closes it.
    """
    depth = 0
    for index in range(opening, len(tokens)):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(tokens[index].token_type, 0)
        if depth == 0:
            return index + 1
    raise ValueError("no closing parenthesis")


def references(statement: SqlStatement) -> list[Reference]:
    """Return the tables that a statement names, in the order of its text, one entry per place."""
    tables = [
        Reference(node)
        for node in statement.tree.find_all(exp.Table)
        if all(isinstance(part, exp.Identifier) for part in node.parts) and (len(node.parts) > 1 or not _is_cte(node))
    ]
    return sorted(tables, key=lambda reference: reference.start)


def _parse(text: str, dialect: str) -> tuple[exp.Expr, str]:
    """Return the statement, and its text without semicolons and comments at the end."""
    refuse_half_characters(text, "query")
    read = sqlglot_dialect(dialect)
    tokens = read.tokenize(text)
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    text = text[: tokens[-1].end + 1] if tokens else ""
    try:
        with _parser_messages_suppressed():
            parsed = read.parser().parse(tokens, text)
    except RecursionError:
        raise RequestError("The query is nested too deeply. Split it with WITH, or use IN for long lists.") from None
    if len(parsed) != 1 or parsed[0] is None:
        count = len([p for p in parsed if p is not None])
        raise RequestError(f"Expected one query, got {count} statements. Run them one by one.")
    return parsed[0], text


@contextlib.contextmanager
def _parser_messages_suppressed() -> Iterator[None]:
    """Keep sqlglot from logging that it could not fully parse a statement."""

    def is_of_use(record: logging.LogRecord) -> bool:  # a filter of this thread's own
        return "Falling back to parsing as a 'Command'" not in record.getMessage()

    log = logging.getLogger("sqlglot")
    log.addFilter(is_of_use)
    try:
        yield
    finally:
        log.removeFilter(is_of_use)


def _is_cte(table: exp.Table) -> bool:
    """Return whether a name refers to a CTE. Inside a WITH clause, only earlier CTEs can be referred to."""
    name = table.name.casefold()
    child: exp.Expr = table
    parent = table.parent
    within: exp.Expr | None = None
    while parent is not None:
        if isinstance(child, exp.CTE):
            within = child
        clause = parent.args.get("with_")
        if isinstance(clause, exp.With):
            ctes = clause.expressions
            if child is clause and within is not None:
                position = next(i for i, cte in enumerate(ctes) if cte is within)
                ctes = ctes[: position + 1 if clause.args.get("recursive") else position]
            if any(cte.alias.casefold() == name for cte in ctes):
                return True
        child, parent = parent, parent.parent
    return False


# A name may have a schema, `sales.orders`, and may qualify columns, `sales.orders.id`. The subquery that replaces the
# table has an alias without a schema: the last part of the name, or the whole name in quotes if two tables in the same
# FROM share the last part. Columns are then qualified by the alias.


Edit = tuple[int, int, str]
"""A replacement in a text: start, end, and the new text."""


def shorten(statement: SqlStatement, views: Sequence[Reference], quote: Callable[[str], str]) -> list[Edit]:
    """Give tables with a schema an alias, and qualify their columns by it. Changes the tree.

    Args:
        statement: The statement.
        views: The references that become views.
        quote: Quotes a name.

    Returns:
        The edits for the columns.

    Raises:
        RequestError: A column may belong to either of two tables.
    """
    tree = statement.tree
    short = [reference for reference in views if len(reference.name) > 1 and not reference.node.alias]
    clashing = [r for r in short if any(select_of(o) is select_of(r.node) for o in _same_name_sources(r.node, tree))]
    for reference, column in itertools.product(clashing, tree.find_all(exp.Column) if clashing else ()):
        last = reference.name[-1]
        if len(column.parts) < 3 and column.parts[0].name.casefold() == last.casefold():
            raise RequestError(
                f"Column {'.'.join(part.name for part in column.parts)} may belong to two tables named {last}: write "
                f"{'.'.join(reference.name)} before it, or give the tables aliases"
            )
    for reference in clashing:
        whole = exp.to_identifier(".".join(reference.name), quoted=True)
        reference.node.set("alias", exp.TableAlias(this=whole))
    columns = list(tree.find_all(exp.Column)) if short else []
    return [edit for column in columns if (edit := _shortened(column, short, quote)) is not None]


def _same_name_sources(table: exp.Table, tree: exp.Expr) -> list[exp.Expr]:
    """Return all other tables and subqueries that have the same name or alias as the table."""
    kinds = (exp.Table, exp.Subquery)
    name = table.alias_or_name.casefold()
    return [other for other in tree.find_all(*kinds) if other is not table and other.alias_or_name.casefold() == name]


def _shortened(column: exp.Column, tables: Collection[Reference], quote: Callable[[str], str]) -> Edit | None:
    parts = column.parts
    for length in range(len(parts), 1, -1):
        reference = _nearest(column, tuple(part.name.casefold() for part in parts[:length]), tables)
        if reference is None:
            continue
        start, end = int(parts[0].meta["start"]), int(parts[length - 1].meta["end"]) + 1
        alias = reference.node.alias_or_name
        remaining = [exp.to_identifier(alias, quoted=True), *parts[length:]]
        for key, part in zip(("this", "table", "db", "catalog"), [*reversed(remaining), *[None] * 3], strict=False):
            column.set(key, part)
        return start, end, quote(alias)
    return None


def _nearest(column: exp.Column, qualifier: tuple[str, ...], tables: Collection[Reference]) -> Reference | None:
    """Return the table to which a qualifier may refer, or None.

    SELECTs are searched from the innermost SELECT around the column outward.
    """
    between: list[exp.Select] = []
    select = column.find_ancestor(exp.Select)
    while select is not None:
        for reference in tables:
            if select_of(reference.node) is not select or not _names(qualifier, reference.name):
                continue
            # In a subquery, another table with the same last name would take the alias.
            if any(select_of(other) in between for other in _same_name_sources(reference.node, column.root())):
                raise RequestError(
                    f"Column {'.'.join(part.name for part in column.parts)} may belong to two tables named "
                    f"{reference.name[-1]}: give the tables aliases"
                )
            return reference
        between.append(select)
        select = select.find_ancestor(exp.Select)
    return None


def _names(qualifier: tuple[str, ...], name: tuple[str, ...]) -> bool:
    """Return whether the shorter name is the end of the longer name, as for `sales.orders` and `prod.sales.orders`."""
    folded = tuple(part.casefold() for part in name)
    shared = min(len(qualifier), len(folded))
    return qualifier[-shared:] == folded[-shared:]


_CLAUSES = frozenset({"expressions", "from_", "limit", "offset"})
_ROW_BY_ROW = (
    *(exp.Add, exp.Alias, exp.Boolean, exp.Cast, exp.Column, exp.DataType, exp.Div, exp.Dot, exp.Identifier),
    *(exp.Literal, exp.Mod, exp.Mul, exp.Neg, exp.Null, exp.Paren, exp.Star, exp.Sub),
)
"""Nodes that produce one row per row.

Functions are excluded, because a user-defined function may aggregate or unnest.
"""


def rows_needed(tree: exp.Expr, table: exp.Table) -> int | None:
    """Return the number of rows of `table` that suffice for the result of `tree`, or None if all may be needed."""
    if not isinstance(tree, exp.Select) or not _present_args(tree) <= _CLAUSES:
        return None
    source = tree.args.get("from_")
    if source is None or source.this is not table or not _present_args(table) <= {"this", "alias"}:
        return None
    if not all(isinstance(node, _ROW_BY_ROW) for item in tree.expressions for node in item.walk()):
        return None
    limit, offset = _number(tree.args.get("limit")), _number(tree.args.get("offset"), none=0)
    return None if limit is None or offset is None else limit + offset


def _present_args(node: exp.Expr) -> set[str]:
    return {name for name, value in node.args.items() if value}


def _number(clause: exp.Expr | None, none: int | None = None) -> int | None:
    if clause is None:
        return none
    value = clause.args.get("expression")
    if not isinstance(clause, exp.Limit | exp.Offset) or _present_args(clause) != {"expression"}:
        return None
    return whole_number(value.this) if isinstance(value, exp.Literal) and not value.is_string else None


@dataclass(frozen=True, slots=True)
class MetadataReference:
    """A metadata table of a bound table.

    Attributes:
        table: The bound table.
        name: The name of the metadata table.
        schema: Its columns. Only their names are used.
    """

    table: str
    name: str
    schema: Schema


def rewrite(
    query: str,
    tables: Mapping[str, Schema],
    dialect: str = "duckdb",
    *,
    into: str = "duckdb",
    prefix: str = "_harness",
    metadata: Callable[[str, str], Schema | None] | None = None,
    now: Callable[[], datetime.datetime] | None = None,
    values: Mapping[str, object] | None = None,
) -> Rewritten:
    """Return the query with a separate view for every mention of one of `tables`.

    Table names match in any letter case, and only without a schema. A CTE hides a table of the same name. Other table
    names stay, because they may be the user's own tables.

    Args:
        query: The query.
        tables: Schemas of the bound tables by name.
        dialect: The dialect of `query`, by sqlglot's name.
        into: The dialect of the result. If it equals `dialect`, only table names in the text change.
        prefix: The prefix of the views' names.
        metadata: Takes the names of a table and a metadata table. Returns the columns of the metadata table, or None if
            it does not exist.
        now: Returns the current time for planning. None leaves conditions on the current time to the engine.
        values: Values of parameters by name, for planning. The text keeps the parameters.

    Raises:
        RequestError: The text is not a single statement that only reads (SELECT, WITH, FROM, VALUES, DESCRIBE,
            SUMMARIZE, PIVOT, or EXPLAIN of these), or it has a time travel clause on a bound table.
    """
    statement = parse_statement(query, dialect)
    refuse_writes(statement)
    names: set[Name] = {reference.name for reference in references(statement)}
    bound: dict[Name, str] = {}
    metadata_tables: dict[Name, MetadataReference] = {}
    for name in names:
        may_be_ours = len(name) == 1 or (len(name) == 2 and metadata is not None)
        table = bound_name(name[0], tables) if may_be_ours else None
        if table is not None and len(name) == 1:
            bound[name] = table
        elif table is not None and metadata is not None and (schema := metadata(table, name[1])) is not None:
            metadata_tables[name] = MetadataReference(table, name[1], schema)
    return rewrite_statement(
        statement, bound, tables, into=into, prefix=prefix, metadata=metadata_tables, now=now, values=values
    )


def rewrite_statement(
    statement: SqlStatement,
    bound: Mapping[Name, str],
    tables: Mapping[str, Schema],
    *,
    into: str = "duckdb",
    prefix: str = "_harness",
    metadata: Mapping[Name, MetadataReference] | None = None,
    now: Callable[[], datetime.datetime] | None = None,
    values: Mapping[str, object] | None = None,
) -> Rewritten:
    """Return a statement with views in place of tables, as described for `rewrite`. Changes the statement's tree.

    Args:
        statement: The statement.
        bound: For the parts of each name that refers to a bound table, the key in `tables`. Leave out the tables to
            which the statement writes.
        tables: Schemas of the bound tables.
        into: As for `rewrite`.
        prefix: As for `rewrite`.
        metadata: Metadata tables by the parts of their names.
        now: As for `rewrite`.
        values: As for `rewrite`.

    Raises:
        RequestError: There is a time travel clause on a bound table.
    """
    tree, text = statement.tree, statement.text
    metadata_tables = metadata or {}
    mentioned = [
        reference for reference in references(statement) if reference.name in bound or reference.name in metadata_tables
    ]
    keys = [bound.get(r.name) or f"{metadata_tables[r.name].table}.{metadata_tables[r.name].name}" for r in mentioned]
    for reference, key in zip(mentioned, keys, strict=True):
        if reference.node.args.get("when") is not None or reference.node.args.get("version") is not None:
            raise RequestError(
                f"Table {key} is bound to one snapshot, but the query names another. Bind the table to that snapshot."
            )
    renamed = [bool(reference.node.alias) for reference in mentioned]
    quote = quote_of(into)
    edits = shorten(statement, mentioned, quote)
    used_names, numbers = {i.name.casefold() for i in tree.find_all(exp.Identifier)}, itertools.count(1)
    views = []
    for key in keys:
        free = (f"{prefix}_{number}_{re.sub(r'[^A-Za-z0-9_]', '_', key)}" for number in numbers)
        views.append(next(name for name in free if name.casefold() not in used_names))
    if values and statement.dialect == into:  # for another dialect the tree itself is written
        parameters.substitute_literals(tree, values)
    # Metadata tables are read whole. Their conditions must not apply to other tables, nor the reverse.
    moment = now() if now is not None and references_now(tree) else None
    pushdown = Pushdown(tree, {id(r.node): tables[bound[r.name]] for r in mentioned if r.name in bound}, moment)
    mentions = _Mentions(tree, text)
    views_made = []
    for reference, view, is_renamed in zip(mentioned, views, renamed, strict=True):
        other = metadata_tables.get(reference.name)
        schema = tables[bound[reference.name]] if other is None else other.schema
        alias = "" if is_renamed or _is_bare(reference, text) else f" AS {_alias(reference, text, quote)}"
        views_made.append(
            TableReference(
                view=view,
                table=bound[reference.name] if other is None else other.table,
                where=pushdown.where(reference.node) if other is None else None,
                columns=mentions.columns(reference.node, schema, () if other is not None else METADATA),
                put=quote(view) + alias,
                original=text[reference.start : reference.end],
                aliased=not _is_bare(reference, text),
                metadata=None if other is None else other.name,
                enough=rows_needed(tree, reference.node),
            )
        )
    if statement.dialect == into:
        edits += [(r.start, r.end, reference.put) for r, reference in zip(mentioned, views_made, strict=True)]
        sql = apply_edits(text, edits)
    else:
        sql = _generated(tree, [reference.node for reference in mentioned], views, into)
    return Rewritten(sql=statement.explain + sql, references=tuple(views_made))


_READS = (exp.Query, exp.Values, exp.Describe, exp.Summarize, exp.Pivot)
_CHANGES = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop, exp.Alter, exp.Copy)
_WRITES = (*_CHANGES, exp.Into, exp.Command)


def refuse_writes(statement: SqlStatement) -> None:
    """Raise RequestError if a statement does more than read."""
    writes = next(iter(statement.tree.find_all(*_WRITES)), None)
    if writes is None and isinstance(statement.tree, _READS):
        return
    misparse = _duckdb_parse_error(statement.text) if statement.dialect == "duckdb" else None
    if misparse is not None and (writes is None or isinstance(writes, exp.Command)):
        raise misparse
    statement_node = writes or statement.tree
    # sqlglot keeps some statements as unparsed text and only knows the first word.
    kind = (statement_node.name if isinstance(statement_node, exp.Command) else statement_node.key).upper()
    raise RequestError(
        f"A query may only read, got {kind}. Use SELECT, and write its result with the API or the shell."
    )


def bound_name(name: str, tables: Collection[str]) -> str | None:
    """Return the bound table with a name, in any letter case, or None. Raise RequestError if several tables match."""
    if name in tables:
        return name
    matches = [table for table in tables if table.casefold() == name.casefold()]
    if len(matches) > 1:
        raise RequestError(f"Table {name} may be any of {', '.join(matches)}. Use the exact spelling.")
    return matches[0] if matches else None


class _Mentions:
    """The names that occur in a statement, collected once for all of its tables."""

    def __init__(self, tree: exp.Expr, text: str) -> None:
        nodes = list(tree.walk())
        self._names = {node.name.casefold() for node in nodes if isinstance(node, exp.Identifier)}
        self._bare = {n.name.casefold() for n in nodes if isinstance(n, exp.Column) and len(n.parts) == 1}
        self._unnamed = "#" in text or any(
            isinstance(node, exp.Columns | exp.Pivot)
            or (isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count))
            or (isinstance(node, exp.Join) and node.method == "NATURAL")
            for node in nodes
        )

    def columns(self, table: exp.Table, schema: Schema, extra_names: Iterable[str]) -> tuple[str, ...] | None:
        """Return the columns of a table whose names occur in the statement.

        The result is None if the statement may use columns that it does not name.
        """
        if self._unnamed or table.find_ancestor(exp.Select) is None or table.alias_column_names:
            return None
        if table.alias_or_name.casefold() in self._bare:  # the table's name means a row as a struct
            return None
        names = dict.fromkeys((*schema.names(), *extra_names))
        return tuple(name for name in names if name.casefold() in self._names)


def _alias(reference: Reference, text: str, quote: Callable[[str], str]) -> str:
    """Return an alias for a table without an alias: the last part of its name as written, or of its location."""
    if reference.node.alias:
        return quote(reference.node.alias)
    last = reference.node.parts[-1]
    if "/" in last.name:
        return quote(last.name.rstrip("/").rpartition("/")[2] or last.name)
    return text[int(last.meta["start"]) : int(last.meta["end"]) + 1]


def _is_bare(reference: Reference, text: str) -> bool:
    """Return whether no alias may follow, as in `TABLE t`, `DESCRIBE t`, and `SUMMARIZE t`."""
    is_table = re.search(r"(?<![\w\"'.])TABLE\s*\Z", text[: reference.start], re.IGNORECASE) is not None
    return is_table or isinstance(reference.node.parent, exp.Describe | exp.Summarize)


def _generated(statement: exp.Expr, tables: list[exp.Table], views: list[str], into: str) -> str:
    for table, view in zip(tables, views, strict=True):
        if not table.alias and not isinstance(table.parent, exp.Describe | exp.Summarize):
            table.set("alias", exp.TableAlias(this=table.parts[-1].copy()))
        table.set("this", exp.to_identifier(view, quoted=True))
        table.set("db", None)
        table.set("catalog", None)
    try:
        return str(statement.sql(into, comments=False, unsupported_level=ErrorLevel.RAISE))
    except SqlglotError as error:
        raise RequestError(f"Cannot translate the query to the dialect {into}: {reason(error)}.") from error
