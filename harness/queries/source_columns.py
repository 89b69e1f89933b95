"""Which source of a SELECT a column is of, and which columns of several sources have one value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from sqlglot import exp

from harness.queries.sources import Source, holds_of_both
from harness.records import dataclass

_WHOLE_NUMBERS = {
    "byte": exp.DType.TINYINT,
    "short": exp.DType.SMALLINT,
    "int": exp.DType.INT,
    "long": exp.DType.BIGINT,
}
_INEXACT = ("half", "float", "double")


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """The sources of a SELECT and their columns.

    columns: of each source, the names in lower case with their types; None where they are not known. A type is that of
        a table's column, as text, or None.
    hiding: names that mean something else than a column, where nothing stands before them: aliases of tables.
    """

    select: exp.Select
    sources: Sequence[Source]
    columns: Sequence[Mapping[str, str | None] | None]
    hiding: Collection[str]
    _known: dict[tuple[str, ...], tuple[int, Sequence[str]] | None] = field(default_factory=dict, compare=False)

    def with_sources(self, sources: Sequence[Source]) -> SourceColumns:
        """The same for sources of which is known what their joins really do."""
        return replace(self, sources=sources)

    def path(self, names: Sequence[str], position: int) -> Sequence[str] | None:
        """The path within the columns of a source that names mean; None unless they can mean nothing else."""
        columns, first = self.columns[position], names[0].casefold()
        if columns is None:
            return None
        if len(names) > 1 and first == self.sources[position].alias and names[1].casefold() in columns:
            return names[1:]
        if first in self.hiding or first not in columns or first in _output_names(self.select):
            return None
        others = [i for i in range(len(self.sources)) if i != position and self.may_have(i, first)]
        return names if all(self._is_merged(i, position, first) for i in others) else None

    def _is_merged(self, other: int, position: int, name: str) -> bool:
        """Whether a name means the column of the earlier source, by the USING of the later one."""
        is_later = self.columns[other] is not None and other > position
        return is_later and _is_attached_by(self.sources[other], name)

    def may_have(self, position: int, name: str) -> bool:
        """Whether a source has a column of that name, in lower case, or may have one."""
        columns = self.columns[position]
        return columns is None or name in columns

    def is_column(self, name: str) -> bool:
        """Whether any source has a column of that name, or may have one."""
        return any(self.may_have(i, name.casefold()) for i in range(len(self.sources)))

    def place_of(self, column: exp.Column) -> tuple[int, str] | None:
        """The source that a column is of, by its place, and its name there; None: not known, or a field of it."""
        index, path = self._found(column) or (0, ())
        return (index, path[0].casefold()) if len(path) == 1 else None

    def index_of(self, column: exp.Column) -> int | None:
        """The source that a column is of, by its place; None: not known."""
        found = self._found(column)
        return None if found is None else found[0]

    def _found(self, column: exp.Column) -> tuple[int, Sequence[str]] | None:
        names = tuple(part.name for part in column.parts)
        if names not in self._known:
            found = ((i, path) for i in range(len(self.sources)) if (path := self.path(names, i)) is not None)
            self._known[names] = next(found, None)
        return self._known[names]


def _is_attached_by(source: Source, name: str) -> bool:
    """Whether a source is joined by a USING of which the column on the left is the one that has the name."""
    return name in source.using and source.join is not None and source.join.side in ("", "LEFT")


def _output_names(select: exp.Select) -> set[str]:
    return {e.alias.casefold() for e in select.expressions if isinstance(e, exp.Alias)}


class EqualColumns:
    """Columns of a SELECT that have one value in every combination of rows in which a row of one source matters."""

    def __init__(self, scope: SourceColumns, position: int, found: Iterable[exp.Expr]) -> None:
        """position: of the source. found: the conditions that hold of all these combinations."""
        self._scope = scope
        self._position = position
        self._classes: list[set[tuple[int, str]]] = []
        for one, other in (*_equalities(scope, found), *_by_using(scope, position)):
            joined = [c for c in self._classes if one in c or other in c]
            self._classes = [c for c in self._classes if c not in joined]
            self._classes.append({one, other}.union(*joined))

    def of_own(self, column: exp.Column) -> tuple[str, exp.DType | None] | None:
        """The source's column that has the value of a column of another one, and the type to see it as."""
        place = self._scope.place_of(column) if self._classes else None
        if place is None:
            return None
        for equal in self._classes:
            if place in equal:
                for position, name in sorted(equal):
                    seen = self._seen_as(name, place) if position == self._position else None
                    if seen is not None:
                        return name, seen[0]
        return None

    def _seen_as(self, name: str, place: tuple[int, str]) -> tuple[exp.DType | None] | None:
        """None where equal values may still differ: floats have two zeros, and other types are cast to compare them."""
        own, other = (self._type(self._position, name), self._type(*place))
        if own is None or other is None or own in _INEXACT:
            return None
        if own == other:
            return (None,)
        # A whole number is the same in another width; a literal must not be taken for one of the narrower type.
        both = own in _WHOLE_NUMBERS and other in _WHOLE_NUMBERS
        widths = list(_WHOLE_NUMBERS)
        if not both or widths.index(own) > widths.index(other):
            return (None,) if both else None
        return (_WHOLE_NUMBERS[other],)

    def _type(self, position: int, name: str) -> str | None:
        columns = self._scope.columns[position]
        return None if columns is None else columns.get(name)


def is_equality(condition: exp.Expr) -> bool:
    """Whether it says of two columns that they are equal."""
    columns = (condition.this, condition.expression) if type(condition) is exp.EQ else ()
    return bool(columns) and all(type(column) is exp.Column for column in columns)


_Pair = tuple[tuple[int, str], tuple[int, str]]


def _equalities(scope: SourceColumns, found: Iterable[exp.Expr]) -> Iterator[_Pair]:
    for condition in found:
        if is_equality(condition):
            one, other = scope.place_of(condition.this), scope.place_of(condition.expression)
            if one is not None and other is not None:
                yield one, other


def _by_using(scope: SourceColumns, position: int) -> Iterator[_Pair]:
    for index, source in enumerate(scope.sources):
        for name in source.using if holds_of_both(scope.sources, index, position) else ():
            left = [i for i in range(index) if scope.may_have(i, name)]
            # Several on the left are one by their own USING, and that is the first of them.
            if left and all(_is_attached_by(scope.sources[i], name) for i in left[1:]):
                yield (left[0], name), (index, name)
