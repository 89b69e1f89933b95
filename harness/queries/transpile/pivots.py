"""PIVOT and UNPIVOT as the SELECTs that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from harness.queries.transpile.spark_text import refused


@dataclass(frozen=True, slots=True)
class Turned:
    """A PIVOT or UNPIVOT, whichever way it was written.

    base: what it turns. node: the clause. fields: the columns that it turns by, with their values; or those that it
    makes rows of. outputs: the aggregates; or the name of the column of values.
    """

    base: exp.Expr
    node: exp.Pivot
    fields: Sequence[exp.Expr]
    outputs: Sequence[exp.Expr]

    @classmethod
    def of_statement(cls, node: exp.Pivot) -> Turned:
        """`PIVOT t ON …`"""
        if not node.args.get("unpivot"):
            return cls(node.this, node, node.expressions, node.args.get("using") or ())
        into = node.args.get("into")
        if into is None or len(into.expressions) != 1:
            raise refused(node, "an UNPIVOT of several columns of values")
        field = exp.In(this=into.this, expressions=node.expressions)
        return cls(node.this, node, [field], into.expressions)

    @classmethod
    def of_source(cls, source: exp.Expr) -> Turned:
        """`t PIVOT (…)` in FROM."""
        clauses = source.args["pivots"]
        if len(clauses) != 1:
            raise refused(source, "several PIVOTs of one table")
        base = source.copy()
        base.set("pivots", None)
        return cls(base, clauses[0], clauses[0].args.get("fields") or (), clauses[0].expressions)

    def select(self, columns: Sequence[str | None]) -> exp.Query:
        """The query for it over a relation of these columns. Raises UnsupportedError."""
        if len(self.fields) != 1 or not isinstance(self.fields[0], exp.In) or not self.outputs:
            raise refused(self.node, "a PIVOT by what it does not name", "name one column and its values: k IN (1, 2)")
        if self.fields[0].args.get("query") is not None or None in columns or len(set(columns)) != len(columns):
            raise refused(self.node)
        names = [str(name) for name in columns]
        field = self.fields[0]
        return self._unpivoted(field, names) if self.node.args.get("unpivot") else self._pivoted(field, names)

    def _pivoted(self, field: exp.In, columns: list[str]) -> exp.Query:
        """A group for each value of the columns that are named nowhere, or in GROUP BY."""
        group = self.node.args.get("group")
        used = {c.name.casefold() for part in (field.this, *self.outputs) for c in part.find_all(exp.Column)}
        keys = (
            [exp.column(exp.to_identifier(name, quoted=True)) for name in columns if name.casefold() not in used]
            if group is None
            else [key.copy() for key in group.expressions]
        )
        if not keys:
            raise refused(self.node, "a PIVOT without keys", "use aggregates with FILTER")
        shown: list[exp.Expr] = list(keys)
        for value in field.expressions:
            if not isinstance(value, exp.Literal | exp.Boolean):
                raise refused(self.node, "a PIVOT by a value that is no literal")
            label = value.name if isinstance(value, exp.Literal) else str(value.this).lower()
            for output in self.outputs:
                call, name = output.unalias(), None
                if isinstance(output, exp.Alias):
                    name = f"{label}_{output.alias}"
                elif len(self.outputs) == 1:
                    name = label
                same = exp.EQ(this=field.this.copy(), expression=value.copy())
                only = exp.Filter(this=call.copy(), expression=exp.Where(this=same))
                shown.append(only if name is None else exp.alias_(only, name, quoted=True))
        return exp.Select(
            expressions=shown,
            from_=exp.From(this=self.base.copy()),
            group=exp.Group(expressions=[key.copy() for key in keys]),
        )

    def _unpivoted(self, field: exp.In, columns: list[str]) -> exp.Query:
        """The rows once for each column; those without a value are left out unless it says otherwise."""
        parts = [
            (part.this, part.args["alias"]) if isinstance(part, exp.PivotAlias) else (part, part)
            for part in field.expressions
        ]
        if any(not isinstance(column, exp.Column) or isinstance(column.this, exp.Star) for column, _ in parts):
            raise refused(self.node, "an UNPIVOT of what is no column")
        turned = {column.name.casefold() for column, _ in parts}
        others = [exp.column(exp.to_identifier(n, quoted=True)) for n in columns if n.casefold() not in turned]
        result: exp.Query | None = None
        for column, label in parts:
            select = exp.Select(
                expressions=[
                    *(other.copy() for other in others),
                    exp.alias_(exp.Literal.string(label.name), field.this.name, quoted=True),
                    exp.alias_(column.copy(), self.outputs[0].name, quoted=True),
                ],
                from_=exp.From(this=self.base.copy()),
            )
            if not self.node.args.get("include_nulls"):
                some = exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null()))
                select.set("where", exp.Where(this=some))
            result = select if result is None else exp.Union(this=result, expression=select, distinct=False)
        assert result is not None
        return result
