"""How far planning may skip what a read need not open."""

from __future__ import annotations

import enum

from harness.errors import RequestError


class Prune(enum.Enum):
    """What planning may skip.

    OFF: nothing. FILES: data files that cannot hold a wanted row, by partition and statistics. ALL: Iceberg's manifests
    too, by those of their summaries that are trusted (iceberg 3.9).
    """

    OFF = "off"
    FILES = "files"
    ALL = "all"


def parse_prune(text: str) -> Prune:
    """The level that a user calls by that name.

    Raises:
        RequestError: there is no such level.
    """
    try:
        return Prune(text)
    except ValueError:
        expected = ", ".join(level.value for level in Prune)
        raise RequestError(f"Invalid option prune={text!r}: expected one of {expected}", options=("prune",)) from None
