"""Replaying the log: from the files of a segment to the state of the table at its version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from harness.delta.actions import State
from harness.storage import PathMap, Storage

if TYPE_CHECKING:
    from harness.delta.log_files import LogListing
    from harness.delta.segment import LogSegment

Statistics: TypeAlias = Literal["none", "any", "all"]
"""Which statistics of files are read: none; JSON, and structs where JSON is missing; or both wherever they are."""


def load_state(
    segment: LogSegment,
    storage: Storage,
    root: str,
    *,
    listing: LogListing | None = None,
    statistics: Statistics = "any",
    path_map: PathMap | None = None,
) -> State:
    """The table at the version of `segment`."""
    raise AssertionError("being written")
