"""Queries over bound tables: which tables a query reads, where, and which of its conditions planning may use.

Every reference to a bound table becomes a view of its own, so that two references to one table can skip different
files. Beside the view goes the part of the query's conditions that concerns that reference alone
(`harness.queries.pushdown`). The query itself keeps all its conditions, and its text: only names of tables are
replaced in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError

from harness.errors import RequestError
from harness.filters.column_names import quoted
from harness.filters.parse import reason
from harness.model.metadata_columns import METADATA
from harness.model.schema import Schema
from harness.queries.pushdown import Pushdown
from harness.queries.rewritten import Rewritten, TableReference


def rewrite(
    query: str,
    tables: Mapping[str, Schema],
    dialect: str = "duckdb",
    *,
    into: Literal["duckdb", "spark"] = "duckdb",
    prefix: str = "_harness",
) -> Rewritten:
    """The query with a view of its own in every place where it reads one of `tables`.

    Names of tables match without regard to case, and only without a schema in front; a CTE hides a table of its name.
    Names of other tables stay, they may be the user's own.

    Args:
        tables: the schemas of the bound tables by name.
        dialect: the name that sqlglot gives to the dialect of `query`.
        into: the dialect of the rewritten query. Where it is that of `query`, the text stays as it is but for the names
            of tables.
        prefix: how the names of the views begin.

    Raises:
        RequestError: not a single statement that only reads (SELECT, WITH, FROM, VALUES, DESCRIBE, SUMMARIZE, PIVOT,
            or EXPLAIN of one), or a time-travel clause on a bound table.
    """
    explain, text = _without_explain(query)
    statement, text = _parse(text, dialect)
    _refuse_writes(statement)
    found = sorted(_bound_tables(statement, tables), key=lambda item: item[0].this.meta["start"])
    views = _view_names([name for _, name in found], statement, prefix)
    pushdown = Pushdown(statement, {id(node): tables[name] for node, name in found})
    references = tuple(
        TableReference(
            view=view,
            table=name,
            where=pushdown.where(node),
            columns=_columns(statement, node, tables[name], text),
            aliased=not _is_bare(node, text),
        )
        for (node, name), view in zip(found, views, strict=True)
    )
    nodes = [node for node, _ in found]
    if dialect == into:
        sql = _spliced(text, nodes, [_QUOTES[into](view) for view in views])
    else:
        sql = _generated(statement, nodes, views, into)
    return Rewritten(sql=explain + sql, references=references)


# The statement.

_EXPLAIN = re.compile(r"\s*EXPLAIN(\s+ANALYZE)?(\s*\(\s*(FORMAT|ANALYZE)\b[^()]*\))?\s+", re.IGNORECASE)
_READS = (exp.Query, exp.Values, exp.Describe, exp.Summarize, exp.Pivot)
_WRITES = (
    exp.Insert,
    exp.Update,
    exp.Delete,
    exp.Merge,
    exp.Create,
    exp.Drop,
    exp.Alter,
    exp.Copy,
    exp.Into,
    exp.Command,
)


def _without_explain(query: str) -> tuple[str, str]:
    match = _EXPLAIN.match(query)
    return (query[: match.end()], query[match.end() :]) if match is not None else ("", query)


def _parse(text: str, dialect: str) -> tuple[exp.Expr, str]:
    """The statement, and its text without semicolons and comments at the end."""
    try:
        language = Dialect.get_or_raise(dialect)
        tokens = language.tokenize(text)
        while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            tokens.pop()
        text = text[: tokens[-1].end + 1] if tokens else ""
        parsed = language.parse(text)
    except (SqlglotError, ValueError) as error:
        raise RequestError(f"Cannot parse the query as {dialect} SQL: {reason(error)}.") from error
    except RecursionError:
        raise RequestError("The query is nested too deeply. Split it with WITH, or use IN for long lists.") from None
    if len(parsed) != 1 or parsed[0] is None:
        count = len([p for p in parsed if p is not None])
        raise RequestError(f"Expected one query, got {count} statements. Run them one by one.")
    return parsed[0], text


def _refuse_writes(statement: exp.Expr) -> None:
    writes = next(iter(statement.find_all(*_WRITES)), None)
    if writes is None and isinstance(statement, _READS):
        return
    kind = (writes or statement).key.upper()
    raise RequestError(f"A query only reads, got {kind}. Use SELECT, and write its result with the API or the shell.")


# Which tables it reads.


def _bound_tables(statement: exp.Expr, tables: Mapping[str, Schema]) -> Iterator[tuple[exp.Table, str]]:
    for node in statement.find_all(exp.Table):
        if not isinstance(node.this, exp.Identifier) or node.args.get("db") is not None:
            continue
        name = _bound_name(node.name, tables)
        if name is None or _is_cte(node):
            continue
        if node.args.get("when") is not None or node.args.get("version") is not None:
            raise RequestError(
                f"Table {name} is bound to one snapshot, the query asks for another. Choose it on binding the table."
            )
        yield node, name


def _bound_name(name: str, tables: Mapping[str, Schema]) -> str | None:
    if name in tables:
        return name
    alike = [table for table in tables if table.casefold() == name.casefold()]
    if len(alike) > 1:
        raise RequestError(f"Table {name} may be any of {', '.join(alike)}. Use the exact spelling.")
    return alike[0] if alike else None


def _is_cte(table: exp.Table) -> bool:
    """Whether a WITH clause in reach defines the name: all of one's CTEs for its query, earlier ones for a CTE."""
    name = table.name.casefold()
    child: exp.Expr = table
    parent = table.parent
    within: exp.Expr | None = None
    while parent is not None:
        if isinstance(child, exp.CTE):
            within = child
        clause = parent.args.get("with_")
        if isinstance(clause, exp.With) and any(
            cte.alias.casefold() == name for cte in _visible(clause, child, within)
        ):
            return True
        child, parent = parent, parent.parent
    return False


def _visible(clause: exp.With, child: exp.Expr, within: exp.Expr | None) -> list[exp.Expr]:
    ctes: list[exp.Expr] = clause.expressions
    if child is not clause or within is None:
        return ctes
    position = next(i for i, cte in enumerate(ctes) if cte is within)
    return ctes[: position + 1] if clause.args.get("recursive") else ctes[:position]


def _view_names(tables: list[str], statement: exp.Expr, prefix: str) -> list[str]:
    taken = {i.name.casefold() for i in statement.find_all(exp.Identifier)}
    names: list[str] = []
    number = 0
    for table in tables:
        while True:
            number += 1
            name = f"{prefix}_{number}_{re.sub(r'[^A-Za-z0-9_]', '_', table)}"
            if name.casefold() not in taken:
                break
        names.append(name)
    return names


def _columns(statement: exp.Expr, table: exp.Table, schema: Schema, text: str) -> tuple[str, ...] | None:
    """Columns whose name occurs anywhere in the statement, unless something may mean columns without naming them."""
    alias = table.alias_or_name.casefold()
    if table.find_ancestor(exp.Select) is None or table.alias_column_names or "#" in text:
        return None
    for node in statement.find_all(exp.Star, exp.Columns, exp.Pivot, exp.Column, exp.Join):
        match node:
            case exp.Star() if isinstance(node.parent, exp.Count):
                continue
            case exp.Column() if len(node.parts) > 1 or node.name.casefold() != alias:
                continue
            case exp.Join() if node.method != "NATURAL":
                continue
            case _:
                return None
    used = {i.name.casefold() for i in statement.find_all(exp.Identifier)}
    known = dict.fromkeys((*schema.names(), *METADATA))
    return tuple(name for name in known if name.casefold() in used)


# Putting views in their place.


_QUOTES: dict[str, Callable[[str], str]] = {
    "duckdb": quoted,
    "spark": lambda name: "`" + name.replace("`", "``") + "`",
}


def _spliced(text: str, tables: list[exp.Table], views: list[str]) -> str:
    edits = []
    for table, view in zip(tables, views, strict=True):
        start, end = table.this.meta["start"], table.this.meta["end"] + 1
        written = text[start:end]
        alias = "" if table.alias or _is_bare(table, text) else f" AS {written}"
        edits.append((start, end, view + alias))
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def _is_bare(table: exp.Table, text: str) -> bool:
    """Whether no alias can follow: `TABLE t`, `DESCRIBE t` and `SUMMARIZE t`, where nothing can refer to one."""
    before = text[: table.this.meta["start"]]
    is_table = re.search(r"(?<![\w\"'.])TABLE\s*\Z", before, re.IGNORECASE) is not None
    return is_table or isinstance(table.parent, exp.Describe | exp.Summarize)


def _generated(statement: exp.Expr, tables: list[exp.Table], views: list[str], into: str) -> str:
    for table, view in zip(tables, views, strict=True):
        if not table.alias and not isinstance(table.parent, exp.Describe | exp.Summarize):
            table.set("alias", exp.TableAlias(this=table.this.copy()))
        table.set("this", exp.to_identifier(view, quoted=True))
    try:
        return str(statement.sql(into, comments=False, unsupported_level=ErrorLevel.RAISE))
    except SqlglotError as error:
        raise RequestError(f"Cannot translate the query to the dialect {into}: {reason(error)}.") from error
