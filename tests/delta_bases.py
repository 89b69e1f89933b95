"""Every way to replay the log of a Delta table: all must give the same state (delta L11, L27).

same = {content(state) for state in states_by_base("warehouse/orders").values()}
assert len(same) == 1
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import InvalidTableError
from harness.metadata.delta.actions import State
from harness.metadata.delta.log_files import Checkpoint, list_log
from harness.metadata.delta.replay import load_state
from harness.metadata.delta.segment import Base, LogSegment, choose_segment
from harness.storage.stores import Storage

_IDENTITY = (
    "key",
    "partition_values",
    "size",
    "dv_storage_type",
    "dv_path_or_inline",
    "dv_offset",
    "dv_cardinality",
    "base_row_id",
    "default_row_commit_version",
)


def states_by_base(location: str, version: int | None = None) -> dict[str, State]:
    """The state of a version from each base: commits alone where none is gone, and each checkpoint up to the version.

    Each with and without compacted commits. Keys name the base. None: the latest version.

    Raises:
        HarnessError: the table cannot be read from a base that its log offers.
    """
    storage = Storage()
    return {name: load_state(segment, storage, location) for name, segment in _segments(storage, location, version)}


def content(state: State) -> tuple[object, ...]:
    """What a state says of the table, comparable: all but statistics, the order of the files and warnings."""
    return (
        state.version,
        state.protocol,
        state.metadata,
        tuple(sorted(state.metadata.configuration.items())),
        tuple(sorted(map(repr, state.transactions.values()))),
        tuple(sorted(map(repr, state.domains.values()))),
        tuple(sorted(map(repr, state.files.select(_IDENTITY).to_pylist()))),
    )


def _segments(storage: Storage, location: str, version: int | None) -> Iterator[tuple[str, LogSegment]]:
    listing = list_log(storage, location)
    target = listing.latest if version is None else version
    bases: list[Base] = [checkpoint for checkpoint in listing.checkpoints if checkpoint.version <= target]
    try:
        choose_segment(listing, target, base="none")
        bases.append("none")
    except InvalidTableError:  # old commits were cleaned up
        if not bases:
            raise
    for base in bases:
        name = base.files[0].name if isinstance(base, Checkpoint) else "commits"
        for compactions in (False, True):
            segment = choose_segment(listing, target, base=base, use_compactions=compactions)
            if segment.compactions or not compactions:
                yield f"{name} with compactions" if compactions else name, segment
