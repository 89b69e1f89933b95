"""A side that fails, told apart from a request that cannot be met: an outcome of a comparison, not its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.differ.forms import INCOMPARABLE
from harness.errors import HarnessError, RequestError

LABELS = ("left", "right")


class SideFailedError(Exception):
    """One side failed. number: 0 for the left side, 1 for the right one."""

    def __init__(self, number: int, error: HarnessError) -> None:
        super().__init__(number, error)
        self.number = number
        self.error = error


@contextmanager
def failing(number: int) -> Iterator[None]:
    """A side's failure, told apart from a wrong request and from what cannot be compared at all."""
    try:
        yield
    except HarnessError as error:
        if isinstance(error, RequestError) or error.cause == INCOMPARABLE:
            raise
        raise SideFailedError(number, error) from error
