"""All ways to replay the log of a Delta table, which must yield the same state (delta L11, L27).

same = {content(state) for state in states_by_base("warehouse/orders").values()}
assert len(same) == 1
"""

from collections.abc import Iterator
from dataclasses import replace

from harness.errors import InvalidTableError, SnapshotNotFoundError
from harness.metadata.delta.actions import State
from harness.metadata.delta.commits import Locator
from harness.metadata.delta.log_files import Checkpoint, list_log
from harness.metadata.delta.paths import TableRoot
from harness.metadata.delta.replay import load_state
from harness.metadata.delta.segment import LogSegment, choose_segment
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
    """Return the state of a version from each base: commits alone, and each checkpoint up to the version.

    Each base is used with and without compacted commits. Keys name the base. Commits alone are left out if some were
    deleted.

    Args:
        location: The table's location.
        version: The version. None for the latest.

    Raises:
        HarnessError: The table cannot be read from a base that its log contains.
    """
    storage, locator = Storage(), Locator(TableRoot.at(location))
    return {name: load_state(segment, storage, locator) for name, segment in _segments(storage, location, version)}


def content(state: State) -> tuple[object, ...]:
    """Return a comparable description of a state, without statistics, the order of files, and warnings."""
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
    bases: list[tuple[Checkpoint, ...]] = [(c,) for c in listing.checkpoints if c.version <= target]
    try:
        choose_segment(replace(listing, checkpoints=()), target)
        bases.append(())
    except (InvalidTableError, SnapshotNotFoundError):  # old commits were deleted
        if not bases:
            raise
    for base in bases:
        name = base[0].files[0].name if base else "commits"
        yield name, choose_segment(replace(listing, checkpoints=base, compactions=()), target)
        segment = choose_segment(replace(listing, checkpoints=base), target)
        if segment.compactions:
            yield f"{name} with compactions", segment
