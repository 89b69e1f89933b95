"""What stands in FROM: tables, queries, VALUES, UNNEST and series, with the joins between them.

A query or a list that names columns of what stands to its left becomes LATERAL, as it is on DuckDB without the word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from harness.errors import UnsupportedError
from harness.model.schema import ListType, Type
from harness.queries.transpile import asof, spark_text
from harness.queries.transpile.expressions import Expressions
from harness.queries.transpile.joins import join
from harness.queries.transpile.pivots import Turned
from harness.queries.transpile.refusal import refused
from harness.queries.transpile.relations import Lowered, renamed
from harness.queries.transpile.scopes import Output, Scope, Source, of_table
from harness.queries.transpile.values import LONG, alike


@dataclass(frozen=True, slots=True)
class Sources:
    """Lowers what stands in FROM.

    tables: the bound tables, by name in lower case.
    numbers: for names that are made up.
    query: lowers a query, which may name what the scope has.
    expressions: what lowers expressions in a scope.
    """

    tables: Mapping[str, tuple[str, Mapping[str, Type]]]
    numbers: Iterator[int]
    query: Callable[[exp.Expr, Scope], Lowered]
    expressions: Callable[[Scope], Expressions]

    def clause(self, node: exp.Select, scope: Scope) -> str:
        """The FROM clause, empty if there is none; `scope` gains its relations. Raises UnsupportedError."""
        clause = node.args.get("from_")
        if clause is None:
            return ""
        first = clause.this
        # `FROM a JOIN b SELECT ...` is parsed with the joins inside the first table.
        joins = [*(first.args.get("joins") or ()), *(node.args.get("joins") or ())]
        sql, source = self._source(first, scope)
        scope.sources.append(source)
        expressions = self.expressions(scope)
        text = f" FROM {sql}"
        for item in joins:
            if item.method == "ASOF":
                item = asof.lateral(item)
            if item.this.args.get("joins"):
                raise refused(item, "a join inside a join")
            sql, source = self._source(item.this, scope)
            if sql.startswith("LATERAL ") and (item.side in ("RIGHT", "FULL") or item.kind in ("SEMI", "ANTI")):
                raise refused(item, f"a {item.side or item.kind} JOIN of what names columns to its left")
            text += join(item, sql, source, scope, expressions)
        return text

    def values(self, node: exp.Values, around: Scope) -> Lowered:
        """Rows that the query spells out; each column has one type for all of them. Raises UnsupportedError."""
        expressions = self.expressions(Scope(ctes=around.ctes, outer=around))
        rows = [[expressions.translate(value) for value in row.expressions] for row in node.expressions]
        columns = [alike(values, "VALUES") for values in zip(*rows, strict=True)]
        listed = ", ".join(f"({', '.join(row)})" for row in zip(*(texts for texts, _ in columns), strict=True))
        outputs = tuple(Output(f"col{i}", type_, f"c{i}") for i, (_, type_) in enumerate(columns))
        names = ", ".join(c.sql for c in outputs)
        return Lowered(f"SELECT * FROM VALUES {listed} AS v({names})", outputs)

    def turned(self, turned: Turned, around: Scope) -> Lowered:
        """A PIVOT or UNPIVOT. Raises UnsupportedError."""
        _, base = self._source(turned.base, Scope(ctes=around.ctes, outer=around))
        return self.query(turned.select([c.name for c in base.columns]), around)

    def _source(self, node: exp.Expr, scope: Scope) -> tuple[str, Source]:
        """The relation as text, which begins with LATERAL where it needs what is to its left."""
        alias = f"t{next(self.numbers)}"
        if node.args.get("pivots"):
            turned = Turned.of_source(node)
            lowered = self.turned(turned, Scope(ctes=scope.ctes, outer=scope.outer))
            name = str(turned.node.alias) or str(node.alias_or_name)
            return f"({lowered.sql}) AS {alias}", Source(name, alias, renamed(lowered.columns, turned.node))
        inner = node.this if isinstance(node, exp.Lateral) else node
        name = str(node.alias_or_name)
        match inner:
            case exp.Table() if isinstance(inner.this, exp.Identifier) and not inner.args.get("db"):
                sql, columns = self._relation(inner.name, scope)
            case exp.Subquery() if isinstance(inner.this, exp.Query | exp.Values | exp.Pivot):
                beside = Scope(sources=scope.sources, merged=scope.merged, ctes=scope.ctes, outer=scope.outer)
                lowered = self.query(inner, beside)
                sql, columns = f"{'LATERAL ' if beside.reached else ''}({lowered.sql})", lowered.columns
            case exp.Values():
                lowered = self.values(inner, scope.outer or Scope())
                sql, columns = f"({lowered.sql})", lowered.columns
            case exp.Unnest() if len(inner.expressions) == 1:
                return self._unnested(inner.expressions[0], node, alias, scope, "unnest")
            case exp.Table() if isinstance(inner.this, exp.Anonymous) and not inner.args.get("db"):
                return self._unnested(inner.this, node, alias, scope, str(inner.this.this).lower())
            case _:
                raise refused(node)
        return f"{sql} AS {alias}", Source(name, alias, renamed(columns, node))

    def _unnested(
        self, listed: exp.Expr, node: exp.Expr, alias: str, scope: Scope, function: str
    ) -> tuple[str, Source]:
        """A row for each element of a list. The column is called as the relation is, if it has no name of its own."""
        value = self.expressions(scope).translate(listed)
        if not isinstance(value.type, ListType):
            raise refused(node, f"{function} of {value.type} in FROM")
        offset = (node.this if isinstance(node, exp.Lateral) else node).args.get("offset")
        name = str(node.alias) or function
        columns = [Output(function if offset else name, value.type.element.type, "c0")]
        call = f"EXPLODE({value.sql}) AS {alias}(c0)"
        if offset:
            named = offset.name if isinstance(offset, exp.Identifier) else "ordinality"
            columns.append(Output(named, LONG, "c1"))
            places = f"SELECT col AS c0, CAST(pos + 1 AS BIGINT) AS c1 FROM POSEXPLODE({value.sql})"
            call = f"({places}) AS {alias}"
        prefix = "LATERAL " if scope.sources else ""
        return f"{prefix}{call}", Source(name, alias, renamed(tuple(columns), node))

    def _relation(self, name: str, scope: Scope) -> tuple[str, tuple[Output, ...]]:
        found = scope.ctes.get(name.casefold())
        if found is not None:
            return found
        if name.casefold() not in self.tables:
            raise UnsupportedError(
                f"Cannot read {name} on Spark: it is none of the given tables, and views of a session are not seen"
            )
        bound, fields = self.tables[name.casefold()]
        return spark_text.name(bound), of_table(fields)
