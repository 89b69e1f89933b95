"""How a table is read: what the caller of `open_table` chose, carried from there to the scan."""

from __future__ import annotations

from dataclasses import field

from harness.cache.kept import Cache
from harness.plan.catalog_answer import CatalogAnswer
from harness.plan.pruning import Prune
from harness.records import dataclass
from harness.storage.paths import PathMap


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of both formats; `harness.table.open_table` says what each is for.

    path_map: from recorded paths to where the files are. A format adds what it knows of the table's own move.
    pinned_version: the version of a Delta table that is taken for its latest one; None: the latest is.
    answer: what the table's catalog says of its commits; None: nobody asked it.
    cache: what was decoded of its metadata before; None: nothing is kept.
    """

    path_map: PathMap = field(default_factory=PathMap)
    prune: Prune = Prune.ALL
    cache: Cache | None = None
    allow_version_guess: bool = False
    lenient_delete_partition: bool = False
    allow_duplicate_files: bool = False
    allow_checkpoint_only: bool = False
    enforce_retention: bool = False
    pinned_version: int | None = None
    answer: CatalogAnswer | None = None
    published_only: bool = False

    @property
    def max_version(self) -> int | None:
        """The latest version that the catalog knows; None: nobody asked it."""
        return None if self.answer is None else self.answer.max_version
