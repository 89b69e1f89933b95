"""What a query over bound tables becomes: text that reads views, and what each view must give."""

from __future__ import annotations

from harness.metadata.filters.predicate import Filter
from harness.storage.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReference:
    """One place where a query reads a bound table.

    view: the name that stands there in the rewritten query; a view of that name must be made before it runs.
    aliased: whether an alias follows it, so that a subquery can stand in its place.
    table: the name of the bound table.
    metadata: the name of a metadata table of it, which is read in its place; None: it is read itself.
    where: a filter that the view may apply, for the schema of the table; None: there is none.
    columns: columns of the table, and metadata columns, that the query may use; None: any. It may be empty.
    put, original: what stands in the rewritten query, the view with an alias where the user gave none, and what stood
        in its place.
    enough: so many rows of the table will do, whichever they are; None: the query needs all.
    """

    view: str
    table: str
    where: Filter | None
    columns: tuple[str, ...] | None
    put: str
    original: str
    aliased: bool = True
    metadata: str | None = None
    enough: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """A query that reads views, and the views that it reads, in the order of the text."""

    sql: str
    references: tuple[TableReference, ...]

    @property
    def originals(self) -> dict[str, str]:
        """The texts that were put into the query, and those that stood there."""
        return {reference.put: reference.original for reference in self.references}

    def as_written(self, text: str) -> str:
        """A part of the query with what stood there."""
        for put, original in self.originals.items():
            text = text.replace(put, original)
        return text
