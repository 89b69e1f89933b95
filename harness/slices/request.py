"""What a slice is asked to hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.errors import RequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRequest:
    """What a slice is asked to hold.

    where: a boolean SQL expression; None: all rows.
    last: so many of the newest snapshots, up to the one that is read.
    max_bytes: how large the files of the source may be that are fetched; None: as large as they are.
    """

    where: str | None = None
    last: int = 1
    max_bytes: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check_number(self.last, "last", 1)
        if self.max_bytes is not None:
            _check_number(self.max_bytes, "max_bytes", 0)

    def as_dict(self) -> dict[str, Any]:
        """The request as plain values, for the note; what was not asked is left out."""
        asked = {"where": self.where, "last": None if self.last == 1 else self.last}
        return {name: value for name, value in asked.items() if value is not None}


def _check_number(value: object, name: str, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RequestError(f"Invalid {name}={value!r}: expected a number from {least} on", options=(name,))
