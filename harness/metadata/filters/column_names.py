"""Names of columns, and which field of a schema each one means (iceberg 5.19, 5.21)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from harness.errors import RequestError, UnknownColumnError
from harness.metadata.model.schema import METADATA, Field, Schema, StructType, walk
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True)
class Resolved:
    """The meaning of a path: fields from the top-level column down, and identifiers in front that are no fields."""

    fields: tuple[Field, ...]
    skipped: int
    rest: tuple[str, ...] = ()  # names within a metadata column, whose fields differ from table to table

    @property
    def leaf(self) -> Field | None:
        """The innermost field; None within a metadata column."""
        return None if self.rest else self.fields[-1]

    def sql(self) -> str:
        """The reference in DuckDB's dialect; parentheses keep a struct from being taken for a table."""
        first, *others = (*(f.name for f in self.fields), *self.rest)
        return ".".join((f"({quoted(first)})", *(quoted(n) for n in others))) if others else quoted(first)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names of one schema. `table`: what may stand before them. `case_sensitive`: see `parse_filter`."""

    schema: Schema
    case_sensitive: bool
    table: str | None

    def resolve(self, names: tuple[str, ...]) -> Resolved:
        """The fields that a path of names means. Raises UnknownColumnError."""
        found = self._descend(names, 0)
        is_qualified = self.table is not None and len(names) > 1 and names[0].casefold() == self.table.casefold()
        if found is None and is_qualified:
            found = self._descend(names[1:], 1)
        if found is None:
            raise self._unknown(names)
        return found

    def _descend(self, names: tuple[str, ...], skipped: int) -> Resolved | None:
        top = self._find(names[0], self.schema.fields)
        if top is None:
            top = self._find(names[0], METADATA.values())
            return None if top is None else Resolved((top,), skipped, names[1:])
        fields = [top]
        for name in names[1:]:
            inner = fields[-1].type
            child = self._find(name, inner.fields) if isinstance(inner, StructType) else None
            if child is None:
                return None
            fields.append(child)
        return Resolved(tuple(fields), skipped)

    def _find(self, name: str, fields: Iterable[Field]) -> Field | None:
        alike = [f for f in fields if f.name.casefold() == name.casefold()]
        exact = [f for f in alike if f.name == name]
        found = exact if exact and self.case_sensitive else alike
        if len(found) > 1:
            listed = ", ".join(f'"{f.name}"' for f in found)
            raise UnknownColumnError(
                f'Column "{name}" is ambiguous, it may be any of {listed}. Use the exact spelling, case-sensitively.',
                field=name,
                cause="AmbiguousColumn",
                rule="iceberg 5.21",
            )
        return found[0] if found else None

    def _unknown(self, names: tuple[str, ...]) -> UnknownColumnError:
        wanted = ".".join(names)
        known = {".".join(path): None for path, _ in walk(self.schema.fields)} | dict.fromkeys(METADATA)
        folded = {name.casefold(): name for name in known}
        near = [folded[n] for n in difflib.get_close_matches(wanted.casefold(), folded, n=3)]
        hint = f"did you mean {' or '.join(near)}?" if near else f"the table has {', '.join(self.schema.names()[:20])}."
        return UnknownColumnError(f'Unknown column "{wanted}": {hint}', field=wanted)


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


# Names of columns, as a caller lists them, to fields.


def bind_columns(names: Sequence[str], schema: Schema) -> tuple[Field, ...]:
    """The fields of `schema`, or metadata columns, that `names` mean, in that order.

    A name is a whole top-level name: `a.b` is the column called that. Spelling decides, as for `parse_filter`.

    Raises:
        UnknownColumnError: a name that no column has, or that several have.
        RequestError: a column is named twice.
    """
    bound = tuple(Names(schema=schema, case_sensitive=True, table=None).resolve((name,)).fields[0] for name in names)
    twice = next((f.name for i, f in enumerate(bound) if f in bound[:i]), None)
    if twice is not None:
        raise RequestError(f"Invalid columns: {twice!r} is named twice", field=twice)
    return bound
