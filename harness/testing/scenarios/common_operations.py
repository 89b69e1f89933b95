"""What the histories of both formats have in common: how an operation is told, and changes of columns by path."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from harness.errors import RequestError
from harness.testing.scenarios.arguments import Arguments, checked


class ColumnBuilder(Protocol):
    """The part of a table's builder that changes columns; a path is dotted, from the top."""

    def drop_column(self, path: str) -> object:
        """Drop a column or nested field."""

    def rename_column(self, path: str, name: str) -> object:
        """Rename a column or nested field."""

    def move_column(self, path: str, index: int) -> object:
        """Move a column or nested field to a 0-based place among its siblings."""


class HasTable(Protocol):
    """A history of a table being built."""

    @property
    def table(self) -> ColumnBuilder:
        """The builder."""


def operation_of(operation: object, known: Collection[str], histories: str) -> tuple[str, Any]:
    """Name and value of one operation of a scenario.

    histories: what kind of histories has the operations `known`, for messages.

    Raises:
        RequestError: it is no mapping with one key, or there is no such operation.
    """
    if not isinstance(operation, Mapping) or len(operation) != 1:
        raise RequestError(f"Invalid operation {operation!r}: expected a mapping with one key")
    ((name, value),) = operation.items()
    if name not in known:
        raise RequestError(f"Unknown operation {name!r}: {histories} have {', '.join(known)}")
    return name, value


def drop_column(history: HasTable, value: Any, place: str) -> None:
    """`drop-column: PATH`."""
    history.table.drop_column(checked(str, value, place))


def rename_column(history: HasTable, value: Any, place: str) -> None:
    """`rename-column: {path: a.b, to: c}`."""
    given = Arguments(value, place)
    path, to = given.text("path"), given.text("to")
    given.finish()
    history.table.rename_column(path, to)


def move_column(history: HasTable, value: Any, place: str) -> None:
    """`move-column: {path: a.b, to: 0}`."""
    given = Arguments(value, place)
    path, to = given.text("path"), given.integer("to")
    given.finish()
    history.table.move_column(path, to)
