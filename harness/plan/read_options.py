"""How a table is read: what the caller of `open_table` chose, carried from there to the scan."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.plan.pruning import Prune
from harness.storage.paths import PathMap


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of both formats; `harness.table.open_table` says what each is for.

    path_map: from recorded paths to where the files are. A format adds what it knows of the table's own move.
    """

    path_map: PathMap = field(default_factory=PathMap)
    prune: Prune = Prune.ALL
    allow_version_guess: bool = False
    lenient_delete_partition: bool = False
    allow_duplicate_files: bool = False
    allow_checkpoint_only: bool = False
    enforce_retention: bool = False
