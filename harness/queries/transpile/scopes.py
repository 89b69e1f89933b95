"""The names of one SELECT: columns of its sources, its own aliases, and the names of the queries around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from harness.errors import UnsupportedError
from harness.metadata.model import schema as dt
from harness.queries.transpile.functions.nested import members
from harness.queries.transpile.values import Typed


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a relation. name: in queries; None: there is none. sql: Spark's name."""

    name: str | None
    type: dt.Type
    sql: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation in FROM. name: in the query. alias: Spark's name, unique in the query."""

    name: str
    alias: str
    columns: tuple[Output, ...]

    def column(self, column: Output) -> Typed:
        """A column of the source."""
        return Typed(f"{self.alias}.{column.sql}", column.type)

    def named(self, name: str) -> list[Output]:
        """Its columns of a name; spelling of case means nothing."""
        return [c for c in self.columns if c.name is not None and c.name.casefold() == name.casefold()]


@dataclass(slots=True, kw_only=True)
class NameScope:
    """The names of one SELECT.

    sources: the relations in FROM so far. merged: columns that USING made one, by name in lower case.
    aliases: expressions of the projection, and ctes: relations of WITH, by name in lower case.
    outer: the query around; None: none that may be used. reached: a query inside has named a column of this one.
    conditions: of joins that go to WHERE.
    """

    sources: list[Relation] = field(default_factory=list)
    merged: dict[str, Typed] = field(default_factory=dict)
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    ctes: dict[str, tuple[str, tuple[Output, ...]]] = field(default_factory=dict)
    outer: NameScope | None = None
    reached: bool = False
    conditions: list[str] = field(default_factory=list)

    @property
    def is_within(self) -> bool:
        """Tells whether there are names of a query around it."""
        return self.outer is not None and (bool(self.outer.sources) or self.outer.is_within)

    def mentions_outer(self, sql: str) -> bool:
        """Tells whether an expression names columns of a query around."""
        around = self.outer
        return around is not None and (
            any(f"{source.alias}." in sql for source in around.sources) or around.mentions_outer(sql)
        )

    def resolve(self, path: tuple[str, ...], lower: Callable[[exp.Expr], Typed]) -> Typed:
        """The expression that a path of names stands for. Raises UnsupportedError: for nothing known, or for several.

        lower: lowers an expression of the projection, for an alias.
        """
        found = self._column(path)
        if found is None and path[0].casefold() in self.aliases:
            found = members(lower(self.aliases[path[0].casefold()]), path[1:], exp.column(path[-1]))
        around = self.outer
        while found is None and around is not None:
            found = around._column(path)
            around.reached |= found is not None
            around = around.outer
        if found is not None:
            return found
        raise UnsupportedError(f"Cannot run the query on Spark: {'.'.join(path)} names no column of a bound table")

    def unqualified(self, name: str) -> Typed | None:
        """The column that a name alone stands for in FROM; None if there is none."""
        if name.casefold() in self.merged:
            return self.merged[name.casefold()]
        found = [source.column(c) for source in self.sources for c in source.named(name)]
        if len(found) > 1:
            raise UnsupportedError(f"Cannot run the query on Spark: {name} may be a column of several of its tables")
        return found[0] if found else None

    def shadowed(self, name: str) -> bool:
        """Tells whether a name is a column of FROM and of the projection, and not the same one."""
        alias = self.aliases.get(name.casefold())
        if alias is None or not (name.casefold() in self.merged or any(source.named(name) for source in self.sources)):
            return False
        return not isinstance(alias, exp.Column) or alias.name.casefold() != name.casefold()

    def _column(self, path: tuple[str, ...]) -> Typed | None:
        """The column that a path stands for in FROM, by its table or alone."""
        tables = [source for source in self.sources if source.name.casefold() == path[0].casefold()]
        found = [source.column(c) for source in tables for c in source.named(path[1])] if len(path) > 1 else []
        if len(found) > 1:
            raise UnsupportedError(f"Cannot run the query on Spark: {'.'.join(path)} may be one of several columns")
        if not found:
            base = self.unqualified(path[0])
            return None if base is None else members(base, path[1:], exp.column(path[-1]))
        structs = [c.type for source in self.sources for c in source.named(path[0])]
        fields = [f for type_ in structs if isinstance(type_, dt.StructType) for f in type_.fields]
        if any(f.name.casefold() == path[1].casefold() for f in fields):
            raise UnsupportedError(f"Cannot run the query on Spark: {path[0]} is both a table and a struct in one")
        return members(found[0], path[2:], exp.column(path[-1]))


@dataclass(frozen=True, slots=True)
class LoweredSparkQuery:
    """A query, and its columns; these are called `c0`, `c1`, ... on Spark."""

    sql: str
    columns: tuple[Output, ...]


def renamed(columns: tuple[Output, ...], node: exp.Expr) -> tuple[Output, ...]:
    """The columns of a source under the names that its alias gives them."""
    alias = node.args.get("alias")
    names = [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
    changed = [Output(name, c.type, c.sql) for name, c in zip(names, columns, strict=False)]
    return (*changed, *columns[len(changed) :])
