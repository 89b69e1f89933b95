"""The options of `open_table`, as passed on to the scan."""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias, TypedDict

from harness.errors import RequestError
from harness.storage.decoded import Cache
from harness.storage.limits import Limits
from harness.storage.paths import PathMap
from harness.storage.records import dataclass


class Prune(enum.Enum):
    """Levels of pruning: the things that planning may skip.

    Attributes:
        OFF: Nothing.
        PARTITION: Data files, by partition.
        FILES: Data files, by partition and statistics.
        ALL: Also Iceberg manifests, by those partition summaries that are trusted (iceberg 3.9).
    """

    OFF = "off"
    PARTITION = "partition"
    FILES = "files"
    ALL = "all"

    @property
    def by_statistics(self) -> bool:
        """True if column statistics may skip files, and may rule out that an equality delete matches a file."""
        return self in (Prune.FILES, Prune.ALL)


def parse_prune(text: str) -> Prune:
    """Return the level of pruning called `text`.

    Raises:
        RequestError: There is no such level.
    """
    try:
        return Prune(text)
    except ValueError:
        expected = ", ".join(level.value for level in Prune)
        raise RequestError(f"Invalid option prune={text!r}: expected one of {expected}", options=("prune",)) from None


class Planning(enum.Enum):
    """Who plans the reads of a table.

    Attributes:
        AUTO: The server if it says so, else harness.
        SERVER: The server of the table's catalog.
        CLIENT: Harness, from the table's metadata files.
    """

    AUTO = "auto"
    SERVER = "server"
    CLIENT = "client"


# The answer of a catalog about the commits of a Delta table that it manages (frontier F4.4). It is defined here because
# the adapter of the oracle, which imports neither format, also takes it.
#
#     answer = catalog_answer(9, ["00000000000000000008.7d17ac10-5cc3-401b-bd1a-9c82dd2ea032.json", (9, b"…")])


Ratified: TypeAlias = "str | tuple[int, str | bytes]"
"""A commit as the caller names it, see `catalog_answer`."""

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_STAGED = re.compile(rf"([0-9]{{20}})\.{_UUID}\.json")
_EXAMPLE = "00000000000000000008.7d17ac10-5cc3-401b-bd1a-9c82dd2ea032.json"


@dataclass(frozen=True, slots=True)
class RatifiedCommit:
    """A commit that the catalog chose for a version.

    Attributes:
        version: The version.
        name: The name of its file in `_delta_log/_staged_commits`; None if the catalog itself holds the commit.
        content: The bytes of the commit, if the catalog holds it; None if there is a file.
    """

    version: int
    name: str | None = None
    content: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class CatalogAnswer:
    """The information that a catalog has about a table's commits.

    Attributes:
        max_version: The latest version. Later versions do not belong to the table.
        ratified: The commits that the catalog still holds, ascending, at most one per version. All others are
            published.
    """

    max_version: int
    ratified: tuple[RatifiedCommit, ...] = ()


def catalog_answer(
    max_version: int | None, ratified: Iterable[Ratified] | None, *, published_only: bool = False
) -> CatalogAnswer | None:
    """Return the catalog's answer from a caller's arguments, or None if the caller passed none.

    Args:
        max_version: The latest version that the catalog knows; None without an answer of the catalog.
        ratified: Commits that the catalog still holds. Each is the name of a staged file, a (version, name) pair, or a
            (version, content) pair if only the catalog has the commit. None or empty if all commits are published.
        published_only: True to read without the catalog's answer.

    Raises:
        RequestError: The answer is impossible: it has commits without a latest version or above it, two commits of one
            version, or a name that is not a staged commit of its version (frontier F4.4, F4.5).
    """
    if published_only and max_version is not None:
        message = "Cannot use max_version and published_only together: pass only one of them"
        raise RequestError(message, cause="ExclusiveSelectors", options=("max_version", "published_only"))
    if isinstance(ratified, str):
        raise _invalid(f"ratified={ratified!r}: expected a list of names")
    commits = tuple(sorted(map(_commit, ratified or ()), key=lambda commit: commit.version))
    if max_version is None:
        if commits:
            raise _invalid("ratified: it requires max_version, the latest version that the catalog knows")
        return None
    if type(max_version) is not int or max_version < 0:
        raise _invalid(f"max_version={max_version!r}: expected a version, 0 or more")
    for earlier, later in itertools.pairwise(commits):
        if earlier.version == later.version:
            raise _invalid(f"ratified: it lists version {earlier.version} twice, expected one commit per version")
    if commits and commits[-1].version > max_version:
        newest = commits[-1].version
        raise _invalid(f"ratified: it lists version {newest}, above max_version={max_version}; ask the catalog again")
    return CatalogAnswer(max_version, commits)


def _commit(commit: Ratified) -> RatifiedCommit:
    if isinstance(commit, str):
        return RatifiedCommit(_version(commit), commit)
    if not (isinstance(commit, tuple) and len(commit) == 2 and type(commit[0]) is int and commit[0] >= 0):
        raise _invalid(f"ratified: got {commit!r:.80}, expected a name such as {_EXAMPLE}, or (version, content)")
    version, content = commit
    if isinstance(content, bytes):
        return RatifiedCommit(version, content=content)
    if not isinstance(content, str) or _version(content) != version:
        raise _invalid(
            f"ratified: got {content!r:.120} for version {version}, expected a staged commit of that version"
        )
    return RatifiedCommit(version, content)


def _version(name: str) -> int:
    """Return the version in the name of a staged commit. The check of the name excludes paths to other directories."""
    match = _STAGED.fullmatch(name)
    if match is None:
        raise _invalid(f"ratified: got {name!r:.120}, expected the name of a staged commit such as {_EXAMPLE}")
    return int(match[1])


def _invalid(reason: str) -> RequestError:
    return RequestError(
        f"Invalid option {reason}", cause="CatalogAnswer", rule="frontier F4.4", options=("max_version", "ratified")
    )


class TableOptions(TypedDict, total=False):
    """Keyword arguments of all functions that open a table. All of them are optional."""

    path_map: Mapping[str, str] | None
    """Prefixes of recorded paths and their current locations, for tables that were moved in parts. A table that was
    moved as a whole needs none. Relative paths are resolved like the location of the table."""
    allow_version_guess: bool
    """If True, read the metadata file with the highest number if no version hint names the current one (iceberg 1.5).
    By default that is an error."""
    lenient_delete_partition: bool
    """If True, apply position delete files and deletion vectors by path to data files of other partitions (iceberg 4.3,
    4.4). By default that is an error."""
    allow_duplicate_files: bool
    """If True, read a data file twice that is listed twice (iceberg 2.13). By default that is an error."""
    allow_checkpoint_only: bool
    """If True, read a Delta table whose newest checkpoint has no commit of the same version (delta L23). By default
    that is an error."""
    enforce_retention: bool
    """If True, refuse snapshots of a Delta table that are older than its retention period for deleted files, as Spark
    does (delta L37). The latest snapshot is always read. By default, old snapshots are read as long as their files
    exist. Reads of changes ignore the option."""
    max_version: int | None
    """The latest version of a Delta table that its catalog knows. Later versions are not read (frontier F4.4)."""
    ratified: Iterable[Ratified] | None
    """The commits that the catalog still holds, together with `max_version`: names of files in
    `_delta_log/_staged_commits`, (version, name) pairs, or (version, bytes) pairs if only the catalog has the commit.
    They are read instead of published commits. None or empty if all commits are published."""
    published_only: bool
    """If True, read a Delta table that a catalog manages without asking the catalog. Only versions that are published
    without a gap can be read, and a warning names the last of them (frontier F4.3)."""
    prune: str
    """Which files planning skips. `all`, the default, skips data files by partition and statistics, and manifests of
    Iceberg by their partition summaries, as far as these are trusted (iceberg 3.9). `files` skips data files only.
    `partition` skips data files by partition only. `off` reads all files. With `partition` and `off`, statistics never
    keep a delete from a file."""
    format_hint: str | None
    """`iceberg` or `delta`. None detects the format: Delta if there is a `_delta_log`, else Iceberg."""
    allowed_roots: Sequence[str]
    """Directories, as local paths or URIs, from which the table may be read in addition to its own location and the
    targets of `path_map`. Relative paths are resolved like the location of the table."""
    limits: Limits | None
    """Bounds on the memory and the number of items of the table's metadata. None means `harness.Limits()`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of both formats, as described in `harness.table.open_table`.

    Attributes:
        path_map: The map from recorded to physical paths. A format adds the table's own move.
        prune: The things that planning may skip.
        cache: Decoded metadata of earlier reads; None disables caching.
        allow_version_guess: As in `TableOptions`.
        lenient_delete_partition: As in `TableOptions`.
        allow_duplicate_files: As in `TableOptions`.
        allow_checkpoint_only: As in `TableOptions`.
        enforce_retention: As in `TableOptions`.
        pinned_version: A version of a Delta table to treat as the latest one; None for the actual latest version.
        answer: The answer of the table's catalog; None if there is none.
        published_only: As in `TableOptions`.
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
        """The latest version that the catalog knows; None without an answer of the catalog."""
        return None if self.answer is None else self.answer.max_version
