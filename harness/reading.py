"""What every read of a table does about errors that no decoder raises: no memory left, and files that went."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import HarnessError, MissingFileError
from harness.limits import contained
from harness.opening import OpenedTable, Point


@contextmanager
def reading(table: OpenedTable, point: Point | None) -> Iterator[None]:
    """To be entered around a read of `table` at `point`; None: the table has no snapshot.

    Raises:
        LimitError: memory or Python's stack ended.
        MissingFileError: as raised inside, with what was read and what the newest is, where that is not the same.
    """
    try:
        with contained(table=table.location):
            yield
    except MissingFileError as error:
        if point is not None and error.cause != _TOLD:
            _tell_newest(error, table, point)
        raise


_TOLD = "TableMovedOn"


def _tell_newest(error: MissingFileError, table: OpenedTable, point: Point) -> None:
    try:
        newest = table.newest()
    except HarnessError:  # then the first error says all that is known
        return
    if newest is None or newest == point.id:
        return
    what = "version" if table.format == "delta" else "snapshot"
    error.cause = _TOLD
    error.message += (
        f". The table has moved on: {what} {point.id} was read, the newest is {newest}, and files of the one may have "
        "been removed since; open the table again"
    )
