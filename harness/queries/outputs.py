"""The output columns of nested queries: their names, the queries that use them, and their source columns.

This information turns a condition on a result into a condition on its sources. A condition can only be moved through
columns that a query passes unchanged, and through queries that may filter before or after (`keeps_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from sqlglot import exp

from harness.metadata.filters.literals import LiteralKind, literal_of
from harness.metadata.model.schema import Schema
from harness.storage.records import dataclass

_NamesAndTypes = Sequence[tuple[str | None, str | None]]
"""Names and types of columns. A name may be None. A type is None unless it comes from a bound table's column."""


class OutputColumns:
    """Names and uses of the queries inside a statement."""

    def __init__(self, statement: exp.Expr, schemas: Mapping[int, Schema]) -> None:
        """Index a statement.

        Args:
            statement: The statement.
            schemas: Schemas of bound tables, by the `id` of each reference in the statement.
        """
        self._schemas = schemas
        self._resolved: dict[int, _NamesAndTypes | None] = {}
        self._ctes: dict[str, list[exp.CTE]] = {}
        self._tables: dict[str, list[exp.Table]] = {}
        for cte in statement.find_all(exp.CTE):
            self._ctes.setdefault(cte.alias.casefold(), []).append(cte)
        for table in statement.find_all(exp.Table):
            self._tables.setdefault(table.name.casefold(), []).append(table)

    def names(self, node: exp.Expr) -> Sequence[str] | None:
        """Return the columns of a query or source, in order, or None if they are unknown or a name is repeated."""
        columns = self._columns(node)
        names = [name for name, _ in columns or () if name is not None]
        is_known = columns is not None and len({name.casefold() for name in names}) == len(columns)
        return names if is_known else None

    def types(self, node: exp.Expr) -> Mapping[str, str | None] | None:
        """Return the types of a query's or source's columns by lower-case name, or None as for `names`."""
        names, columns = self.names(node), self._columns(node)
        return None if names is None else {n.casefold(): t for n, (_, t) in zip(names, columns or (), strict=True)}

    def type_of(self, query: exp.Expr, position: int) -> str | None:
        """Return the type of a column by position, or None unless it is an unchanged column of a bound table."""
        columns = self._columns(query) or ()
        return columns[position][1] if position < len(columns) else None

    def _columns(self, node: exp.Expr) -> _NamesAndTypes | None:
        """Return the columns of a query or source with types, or None if their number is unknown."""
        if id(node) not in self._resolved:
            self._resolved[id(node)] = self._resolve(node)
        return self._resolved[id(node)]

    def _resolve(self, node: exp.Expr) -> _NamesAndTypes | None:
        renamed: list[str] = []
        if isinstance(node, exp.Table | exp.Subquery):
            renamed = node.alias_column_names
            if node.args.get("pivots") or node.args.get("sample"):
                return None
        schema, cte, inner = self._schemas.get(id(node)), None, None
        if schema is not None:
            return None if renamed else [(field.name, str(field.type)) for field in schema.fields]
        match node:
            case exp.SetOperation() if not node.args.get("by_name"):
                left, right = self._columns(node.this), self._columns(node.expression)
                if left is None or right is None or len(left) != len(right):
                    return None if left is None else [(name, None) for name, _ in left]
                return [
                    (name, left_type if left_type == right_type else None)
                    for (name, left_type), (_, right_type) in zip(left, right, strict=True)
                ]
            case exp.Select() if is_bare_star(node):
                source = node.args.get("from_")
                is_alone = source is not None and not node.args.get("joins") and not source.this.args.get("joins")
                return self._columns(source.this) if source is not None and is_alone else None
            case exp.Select():
                return self._items(node)
            case exp.Subquery():
                inner = node.this
            case exp.Table() if not node.db and (cte := self._cte_of(node)) is not None:
                inner, renamed = cte.this, renamed or cte.alias_column_names
            case _:
                return None
        columns = self._columns(inner)
        if columns is None or not renamed:
            return columns
        if self.names(inner) is None or len(renamed) > len(columns):
            return None
        # If there are fewer names than columns, further columns keep their names.
        return [*((new, type_) for new, (_, type_) in zip(renamed, columns, strict=False)), *columns[len(renamed) :]]

    def _items(self, query: exp.Select) -> _NamesAndTypes | None:
        if any(item.is_star for item in query.expressions):
            return None
        clause = query.args.get("from_")
        sources = [] if clause is None else [clause.this, *(join.this for join in query.args.get("joins") or ())]
        types_by_source = [(source.alias_or_name.casefold(), self.types(source) or {}) for source in sources]
        columns: list[tuple[str | None, str | None]] = []
        for item in query.expressions:
            column, types = item.unalias(), []
            if type(column) is exp.Column and len(column.parts) <= 2:
                candidates = [each for name, each in types_by_source if column.table.casefold() in ("", name)]
                types = [each[column.name.casefold()] for each in candidates if column.name.casefold() in each]
            name = str(item.alias_or_name) if isinstance(item, exp.Alias | exp.Column) else None
            columns.append((name, types[0] if len(types) == 1 else None))
        return columns

    def use_of(self, query: exp.Query) -> exp.Expr | None:
        """Return the only place that uses a query's result, or None if there is no such place or several.

        The place is a set operation, or a table or subquery in FROM.
        """
        parent = query.parent
        while isinstance(parent, exp.Subquery) and isinstance(parent.parent, exp.SetOperation) and keeps_rows(parent):
            parent = parent.parent
        match parent:
            case exp.SetOperation() if not parent.args.get("by_name"):
                return parent
            case exp.Subquery() if isinstance(parent.parent, exp.From | exp.Join):
                return parent
            case exp.CTE() if not (parent.parent is not None and parent.parent.args.get("recursive")):
                uses = self._tables.get(parent.alias.casefold(), [])
                is_only = self._only(parent.alias) is parent and len(uses) == 1 and id(uses[0]) not in self._schemas
                return uses[0] if is_only and not uses[0].db else None
            case _:
                return None

    def _cte_of(self, table: exp.Table) -> exp.CTE | None:
        """Return the CTE to which a table name refers, or None if there is none or the name is inside that CTE."""
        cte = self._only(table.name)
        node: exp.Expr | None = table
        while node is not None and node is not cte:
            node = node.parent
        return cte if node is None else None

    def _only(self, name: str) -> exp.CTE | None:
        ctes = self._ctes.get(name.casefold(), [])
        return ctes[0] if len(ctes) == 1 else None


def keeps_rows(query: exp.Query) -> bool:
    """Return whether a filter on passed columns has the same result before the query as after it.

    This holds if each result row depends only on source rows that have the same values in these columns.
    """
    if any(query.args.get(key) for key in ("limit", "offset", "fetch", "sample", "qualify", "having", "windows")):
        return False
    if not isinstance(query, exp.Select):
        return isinstance(query, exp.SetOperation | exp.Subquery)
    distinct = query.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        return False
    return not any(column.find(exp.Window) for column in query.expressions)


def position_of(names: Sequence[str] | None, column: exp.Column) -> int | None:
    """Return the position of a column among the names of a result, or None if it is not there.

    `names` is None if the names are unknown.
    """
    name_ = column.name.casefold()
    return next((i for i, name in enumerate(names or ()) if name.casefold() == name_), None)


def is_bare_star(query: exp.Select) -> bool:
    """Return whether a SELECT only has a star that passes all columns, without EXCLUDE, REPLACE, or RENAME."""
    first, *others = query.expressions or [None]
    return not others and type(first) is exp.Star and not any(first.args.values())


_TYPES = (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT)
_WHOLE_NUMBERS = dict(zip(("byte", "short", "int", "long"), _TYPES, strict=True))
_INEXACT = ("half", "float", "double")


@dataclass(slots=True)
class SourceColumns:
    """The sources of a SELECT and their columns. Resolved names are cached.

    Attributes:
        select: The SELECT.
        sources: The sources in FROM, from the left.
        columns: For each source, the column names in lower case with the types of tables' columns, or None if unknown.
        hiding: Table aliases. An unqualified name refers to the table with this alias before it refers to a column.
    """

    select: exp.Select
    sources: Sequence[JoinedSource]
    columns: Sequence[Mapping[str, str | None] | None]
    hiding: Collection[str]
    _resolved: dict[tuple[str, ...], tuple[int, Sequence[str]] | None] = field(default_factory=dict, compare=False)

    def path(self, names: Sequence[str], position: int) -> Sequence[str] | None:
        """Return the path inside a source to which a qualified name refers, or None if ambiguous or unknown."""
        columns, first = self.columns[position], names[0].casefold()
        if columns is None:
            return None
        if len(names) > 1 and first == self.sources[position].alias and names[1].casefold() in columns:
            return names[1:]
        if first in self.hiding or first not in columns:
            return None
        if any(isinstance(e, exp.Alias) and e.alias.casefold() == first for e in self.select.expressions):
            return None
        for other, source in enumerate(self.sources):
            # USING merges a column of a later source with this one.
            is_merged = other > position and self.columns[other] is not None and _is_attached_by(source, first)
            if other != position and self.may_have(other, first) and not is_merged:
                return None
        return names

    def may_have(self, position: int, name: str) -> bool:
        """Return whether a source has or may have a column of that name, in lower case."""
        columns = self.columns[position]
        return columns is None or name in columns

    def is_column(self, name: str) -> bool:
        """Return whether any source has or may have a column of that name."""
        return any(self.may_have(i, name.casefold()) for i in range(len(self.sources)))

    def place_of(self, column: exp.Column) -> tuple[int, str] | None:
        """Return the position of a column's source, and the column's name in that source.

        The result is None if the source is unknown, or if the column is a nested field.
        """
        index, path = self._resolve(column) or (0, ())
        return (index, path[0].casefold()) if len(path) == 1 else None

    def index_of(self, column: exp.Column) -> int | None:
        """Return the position of a column's source, or None if unknown."""
        resolved = self._resolve(column)
        return None if resolved is None else resolved[0]

    def _resolve(self, column: exp.Column) -> tuple[int, Sequence[str]] | None:
        names = tuple(part.name for part in column.parts)
        if names not in self._resolved:
            candidates = ((i, path) for i in range(len(self.sources)) if (path := self.path(names, i)) is not None)
            self._resolved[names] = next(candidates, None)
        return self._resolved[names]


def _is_attached_by(source: JoinedSource, name: str) -> bool:
    """Return whether a source is joined by USING on this name. The name then means the column on the left."""
    return name in source.using and source.join is not None and source.join.side in ("", "LEFT")


class EqualColumns:
    """Groups of columns with equal values, for one source of a SELECT.

    The columns of a group are equal in every joined row through which a row of the source contributes to the result.
    """

    def __init__(self, scope: SourceColumns, position: int, conditions_: Iterable[exp.Expr]) -> None:
        """Collect groups of equal columns.

        Args:
            scope: The sources of the SELECT.
            position: The position of the source.
            conditions_: Conditions that are true for every joined row through which the source contributes to the
                result.
        """
        self._scope = scope
        self._position = position
        self._classes: list[set[tuple[int, str]]] = []
        equal = [(scope.place_of(c.this), scope.place_of(c.expression)) for c in conditions_ if is_equality(c)]
        for index, source in enumerate(scope.sources):
            for name in source.using if applies_to_rows(scope.sources, index, position) else ():
                left = [i for i in range(index) if scope.may_have(i, name)]
                # If several sources on the left have the column, their own USING merges them into the first.
                if left and all(_is_attached_by(scope.sources[i], name) for i in left[1:]):
                    equal.append(((left[0], name), (index, name)))
        for first, second in equal:
            if first is None or second is None:
                continue
            joined = [c for c in self._classes if first in c or second in c]
            self._classes = [c for c in self._classes if c not in joined]
            self._classes.append({first, second}.union(*joined))

    def own_column(self, column: exp.Column) -> tuple[str, exp.DType | None] | None:
        """Return the column of this source that equals a column of another source, or None.

        The second item of the result is the type to which the column must be cast, None for no cast.
        """
        place = self._scope.place_of(column) if self._classes else None
        if place is None:
            return None
        equal = sorted(each for group in self._classes if place in group for each in group)
        names = [name for position, name in equal if position == self._position]
        return next(
            ((name, boxed_type[0]) for name in names if (boxed_type := self._comparable_type(name, place)) is not None),
            None,
        )

    def _comparable_type(self, name: str, place: tuple[int, str]) -> tuple[exp.DType | None] | None:
        """Return the type to which a column must be cast, as a 1-tuple, or None if equality is not exact.

        Equality is not exact for floats, which have two equal zeros, and for types that are cast before a comparison.
        """
        own_type, other_type = ((self._scope.columns[i] or {}).get(n) for i, n in ((self._position, name), place))
        if own_type is None or other_type is None or own_type in _INEXACT:
            return None
        if own_type == other_type:
            return (None,)
        if own_type not in _WHOLE_NUMBERS or other_type not in _WHOLE_NUMBERS:
            return None
        # An integer keeps its value in a wider type. A literal must not become a value of the narrower type.
        widths = list(_WHOLE_NUMBERS)
        return (None if widths.index(own_type) > widths.index(other_type) else _WHOLE_NUMBERS[other_type],)


def is_equality(condition: exp.Expr) -> bool:
    """Return whether a condition states that two columns are equal."""
    columns = (condition.this, condition.expression) if type(condition) is exp.EQ else ()
    return bool(columns) and all(type(column) is exp.Column for column in columns)


IndexOf = Callable[[exp.Column], "int | None"]
"""Returns the position of a column's source, or None if unknown."""
_NONE: frozenset[int] = frozenset()
_NULL_IF_THIS = {
    exp.Paren,
    exp.Cast,
    exp.TryCast,
    exp.Neg,
    exp.Not,
    exp.Year,
    exp.TimestampTrunc,
    exp.IsNan,
    exp.Between,
}
"""Expressions that are null if `this` is null."""
_NULL_IF_EITHER = {
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.Like,
    exp.StartsWith,
    exp.Add,
    exp.Sub,
    exp.Mul,
}
"""Expressions that are null if `this` or `expression` is null."""


def null_rejecting_sources(condition: exp.Expr, index_of: IndexOf) -> frozenset[int]:
    """Return the sources whose nulls prevent a condition from being true.

    A source counts if the condition is never true while all columns of that source are null.
    """
    kind = type(condition)
    if kind is exp.Paren:
        return null_rejecting_sources(condition.this, index_of)
    if kind is exp.And:
        return frozenset().union(*(null_rejecting_sources(part, index_of) for part in condition.flatten()))
    if kind is exp.Or:
        first, *others = (null_rejecting_sources(part, index_of) for part in condition.flatten())
        return first.intersection(*others)
    if kind is exp.Not and type(condition.this) is exp.Is and isinstance(condition.this.expression, exp.Null):
        return _null_with(condition.this.this, index_of)
    if kind is exp.Is and isinstance(condition.expression, exp.Boolean):
        return _null_with(condition.this, index_of)
    if kind is exp.NullSafeEQ:
        literal = literal_of(condition.expression)
        is_value = literal is not None and literal.kind is not LiteralKind.NULL
        return _null_with(condition.this, index_of) if is_value else _NONE
    return _null_with(condition, index_of)


def _null_with(node: exp.Expr, index_of: IndexOf) -> frozenset[int]:
    """Return the sources whose nulls make an expression null. For an unknown expression, the result is empty."""
    kind = type(node)
    if isinstance(node, exp.Column):
        index = index_of(node)
        return _NONE if index is None else frozenset({index})
    if kind in _NULL_IF_THIS or (kind is exp.In and node.expressions and not node.args.get("query")):
        return _null_with(node.this, index_of)
    if kind in _NULL_IF_EITHER:
        return _null_with(node.this, index_of) | _null_with(node.expression, index_of)
    if kind in (exp.And, exp.Or):
        return _null_with(node.this, index_of) & _null_with(node.expression, index_of)
    return _NONE


@dataclass(frozen=True, slots=True)
class JoinedSource:
    """A table, subquery, or function in FROM.

    Attributes:
        node: The source.
        join: The join that adds the source, or None for the first source.
        side: The side of the outer join, as in SQL, unless a condition drops the rows that the join fills with nulls.
            LEFT fills this source with nulls. Empty for an inner join.
    """

    node: exp.Expr
    join: exp.Join | None
    side: str

    @property
    def alias(self) -> str:
        """The name or alias, in lower case."""
        return str(self.node.alias_or_name).casefold()

    @property
    def on(self) -> exp.Expr | None:
        """The condition in ON, or None."""
        return self.join.args.get("on") if self.join is not None else None

    @property
    def kind(self) -> str:
        """The kind of the join: SEMI, ANTI, or another word before JOIN."""
        return self.join.kind if self.join is not None else ""

    @property
    def is_after_comma(self) -> bool:
        """True if a comma precedes the source.

        A comma binds less tightly than JOIN: `a, b RIGHT JOIN c` fills only b with nulls.
        """
        join = self.join
        return join is not None and not any(join.args.get(key) for key in ("on", "using", "kind", "side", "method"))

    @property
    def using(self) -> tuple[str, ...]:
        """The columns of USING, in lower case."""
        names = (self.join.args.get("using") if self.join is not None else None) or []
        return tuple(str(name.name).casefold() for name in names)


def select_of(table: exp.Expr) -> exp.Select | None:
    """Return the SELECT that has the table or subquery directly in FROM, or None."""
    node = table.parent
    if isinstance(node, exp.Join):
        node = node.parent
    if isinstance(node, exp.Table):
        # sqlglot parses the joins of `FROM a JOIN b SELECT …` into the first table.
        node = node.parent
    if isinstance(node, exp.From):
        node = node.parent
    return node if isinstance(node, exp.Select) else None


def sources_of(select: exp.Select) -> list[JoinedSource] | None:
    """Return the sources of a SELECT with their sides as written, or None if conditions cannot be moved."""
    first = select.args.get("from_")
    if first is None or select.args.get("sample") or select.args.get("laterals"):
        return None
    inner = (first.this.args.get("joins") or []) if isinstance(first.this, exp.Table) else []
    sources = [JoinedSource(first.this, None, "")]
    for join in (*inner, *(select.args.get("joins") or [])):
        is_outer = join.side in ("LEFT", "RIGHT", "FULL") and join.kind in ("", "OUTER")
        is_known = is_outer or (not join.side and join.kind in ("", "INNER", "CROSS", "SEMI", "ANTI"))
        if not is_known or join.method not in ("", "NATURAL") or join.this.args.get("joins"):
            return None
        if any(argument for part, argument in join.args.items() if part not in _JOIN):
            return None
        sources.append(JoinedSource(join.this, join, join.side))
    return sources


_JOIN = {"this", "side", "kind", "method", "on", "using"}


def simplify_joins(select: exp.Select, sources: Sequence[JoinedSource], index_of: IndexOf) -> list[JoinedSource]:
    """Return the sources with as few outer joins as possible.

    An outer join becomes an inner join if a condition, which is never true for nulls, drops the rows that the join
    fills.
    """
    simplified = list(sources)
    if not any(s.side for s in simplified):
        return simplified
    where = select.args.get("where")
    rejected_by_where = null_rejecting_sources(where.this, index_of) if where is not None else frozenset()
    while True:
        before = list(simplified)
        for index in range(1, len(simplified)):
            dropped = set(rejected_by_where)
            for above in range(index + 1, len(simplified)):
                on = simplified[above].on
                # The condition of an inner join can use all sources before it.
                if on is not None and not simplified[above].side and simplified[above].kind != "ANTI":
                    dropped |= null_rejecting_sources(on, index_of)
            first = max(i for i in range(index + 1) if simplified[i].is_after_comma or i == 0)
            fills_own = simplified[index].side in ("LEFT", "FULL") and index not in dropped
            fills_others = simplified[index].side in ("RIGHT", "FULL") and not any(first <= i < index for i in dropped)
            sides = {(True, True): "FULL", (True, False): "LEFT", (False, True): "RIGHT"}
            simplified[index] = replace(simplified[index], side=sides.get((fills_own, fills_others), ""))
        if simplified == before:
            return simplified


def conditions(select: exp.Select, sources: Sequence[JoinedSource], position: int) -> Iterator[exp.Expr]:
    """Yield the conditions that a joined row must satisfy to contribute a row of the source to the result."""
    if is_preserved(sources, position, len(sources)):
        yield from conditions_of(select, "where")
    for index, source in enumerate(sources):
        if source.on is not None and applies_to_rows(sources, index, position):
            yield from conjuncts(source.on)


def conditions_of(select: exp.Select, clause: str) -> Iterator[exp.Expr]:
    """Yield the conditions of WHERE or HAVING."""
    expression = select.args.get(clause)
    if expression is not None:
        yield from conjuncts(expression.this)


def filtering_sources(sources: Sequence[JoinedSource], position: int) -> frozenset[int]:
    """Return the sources that must have a matching row for a row of this source to matter.

    For the right side of a left join, these are the sources on the left. Sources that depend on this one do not count.
    """
    source = sources[position]
    is_joined = source.side == "LEFT" or (source.side == "" and source.kind in ("SEMI", "ANTI"))
    if is_joined and all(s.side in ("", "LEFT") for s in sources[position + 1 :]):
        return frozenset(range(position))
    for index in range(position + 1, len(sources)):
        if sources[index].side == "RIGHT" and is_preserved(sources, position, index):
            is_last = all(s.side in ("", "LEFT") for s in sources[index + 1 :])
            return frozenset({index}) if is_last else frozenset()
    return frozenset()


def is_preserved(sources: Sequence[JoinedSource], position: int, end: int) -> bool:
    """Return whether the join of the sources before `end` contains only existing rows of this source.

    No outer join may fill this source's columns with nulls.
    """
    source = sources[position]
    is_visible = source.side in ("", "RIGHT") and source.kind not in ("SEMI", "ANTI")
    return is_visible and all(s.side in ("", "LEFT") for s in sources[position + 1 : end])


def applies_to_rows(sources: Sequence[JoinedSource], index: int, position: int) -> bool:
    """Return whether rows of a source that fail the ON or USING condition of source `index` have no effect."""
    join = sources[index]
    if position > index or join.side == "FULL":
        return False
    if position == index:
        return join.side in ("", "LEFT")
    return join.side in ("", "RIGHT") and join.kind != "ANTI" and is_preserved(sources, position, index)


def conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the conditions that a condition combines with AND."""
    match condition:
        case exp.Paren():
            yield from conjuncts(condition.this)
        case exp.And():
            for part in condition.flatten():
                yield from conjuncts(part)
        case _:
            yield condition
