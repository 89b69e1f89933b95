"""The choices of the caller of `open_table`, carried from there to the scan."""

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

# The level of skipping.


class Prune(enum.Enum):
    """The things that planning may skip.

    OFF: nothing. PARTITION: data files that cannot hold a wanted row by their partition. FILES: those by statistics
    too. ALL: Iceberg's manifests too, by those of their summaries that are trusted (iceberg 3.9).
    """

    OFF = "off"
    PARTITION = "partition"
    FILES = "files"
    ALL = "all"

    @property
    def by_statistics(self) -> bool:
        """True if statistics of columns may skip files and hold deletes back."""
        return self in (Prune.FILES, Prune.ALL)


def parse_prune(text: str) -> Prune:
    """The level that a user calls by that name. Raises RequestError: there is no such level."""
    try:
        return Prune(text)
    except ValueError:
        expected = ", ".join(level.value for level in Prune)
        raise RequestError(f"Invalid option prune={text!r}: expected one of {expected}", options=("prune",)) from None


# A catalog's answer about the commits of a Delta table that it manages (frontier F4.4). It stands here, as the oracle's
# adapter takes it too, which imports neither format.
#
#     answer = catalog_answer(9, ["00000000000000000008.7d17ac10-5cc3-401b-bd1a-9c82dd2ea032.json", (9, b"…")])


Ratified: TypeAlias = "str | tuple[int, str | bytes]"
"""A commit as a caller names it, see `catalog_answer`."""

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_STAGED = re.compile(rf"([0-9]{{20}})\.{_UUID}\.json")
_EXAMPLE = "00000000000000000008.7d17ac10-5cc3-401b-bd1a-9c82dd2ea032.json"


@dataclass(frozen=True, slots=True)
class RatifiedCommit:
    """A commit that the catalog chose for a version.

    name: of its file in `_delta_log/_staged_commits`; None: the catalog holds the commit itself.
    content: what the catalog holds, the bytes of the commit; None: there is a file.
    """

    version: int
    name: str | None = None
    content: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class CatalogAnswer:
    """All that a catalog says of a table's commits.

    max_version: the latest version; nothing above it is of the table.
    ratified: the commits that the catalog still holds, ascending, at most one of a version. Others are published.
    """

    max_version: int
    ratified: tuple[RatifiedCommit, ...] = ()


def catalog_answer(
    max_version: int | None, ratified: Iterable[Ratified] | None, *, published_only: bool = False
) -> CatalogAnswer | None:
    """The answer in a caller's arguments; None: there is none.

    ratified: the name of a staged file, or a version with such a name, or, for a commit that only the catalog holds, a
        version with its content. None, or none of them: all commits are published.

    Raises:
        RequestError: the answer cannot be one: there are commits and no latest version, or one above it, two of a
            version, or a name that is no staged commit of its version (frontier F4.4, F4.5).
    """
    if published_only and max_version is not None:
        message = "Cannot read by the catalog's answer and published_only at once: give max_version, or published_only"
        raise RequestError(message, cause="ExclusiveSelectors", options=("max_version", "published_only"))
    if isinstance(ratified, str):
        raise _invalid(f"ratified={ratified!r}: expected a list of names")
    commits = tuple(sorted(map(_commit, ratified or ()), key=lambda commit: commit.version))
    if max_version is None:
        if commits:
            raise _invalid("ratified: expected max_version with it, the latest version that the catalog knows")
        return None
    if type(max_version) is not int or max_version < 0:
        raise _invalid(f"max_version={max_version!r}: expected a version, 0 or more")
    for one, other in itertools.pairwise(commits):
        if one.version == other.version:
            raise _invalid(f"ratified: it lists version {one.version} twice, and a catalog ratifies one commit of each")
    if commits and commits[-1].version > max_version:
        newest = commits[-1].version
        raise _invalid(f"ratified: it lists version {newest}, above max_version={max_version}; ask the catalog again")
    return CatalogAnswer(max_version, commits)


def _commit(given: Ratified) -> RatifiedCommit:
    if isinstance(given, str):
        return RatifiedCommit(_version(given), given)
    if not (isinstance(given, tuple) and len(given) == 2 and type(given[0]) is int and given[0] >= 0):
        raise _invalid(f"ratified: got {given!r:.80}, expected a name such as {_EXAMPLE}, or (version, content)")
    version, said = given
    if isinstance(said, bytes):
        return RatifiedCommit(version, content=said)
    if not isinstance(said, str) or _version(said) != version:
        raise _invalid(f"ratified: got {said!r:.120} for version {version}, expected a staged commit of that version")
    return RatifiedCommit(version, said)


def _version(name: str) -> int:
    """The version in the name of a staged commit, which leads to no other directory."""
    found = _STAGED.fullmatch(name)
    if found is None:
        raise _invalid(f"ratified: got {name!r:.120}, expected the name of a staged commit such as {_EXAMPLE}")
    return int(found[1])


def _invalid(reason: str) -> RequestError:
    return RequestError(
        f"Invalid option {reason}", cause="CatalogAnswer", rule="frontier F4.4", options=("max_version", "ratified")
    )


class TableOptions(TypedDict, total=False):
    """Keyword arguments of everything that opens a table. None of them is required."""

    path_map: Mapping[str, str] | None
    """Recorded path prefixes and where they are now, for tables that were moved in parts. A table that was moved as a
    whole needs none. Relative paths start where those of the table's location do.
    """
    allow_version_guess: bool
    """Whether to take the metadata file with the highest number if no version hint names the current one (iceberg 1.5).
    By default that is an error.
    """
    lenient_delete_partition: bool
    """Whether to apply position delete files and deletion vectors to data files of other partitions by path (iceberg
    4.3, 4.4). False by default.
    """
    allow_duplicate_files: bool
    """Whether to read a data file twice that is listed twice (iceberg 2.13). By default that is an error."""
    allow_checkpoint_only: bool
    """Whether to read a Delta table whose newest checkpoint has no commit of its version (delta L23). By default that
    is an error.
    """
    enforce_retention: bool
    """Whether to refuse snapshots of a Delta table, but the latest, that are older than the table keeps deleted files,
    as Spark does (delta L37). By default they are read as long as their files are there. Changes are not held against
    it.
    """
    max_version: int | None
    """The latest version of a Delta table as the catalog says that manages it. Nothing above it is read (frontier
    F4.4).
    """
    ratified: Iterable[Ratified] | None
    """The commits that the catalog still holds, with `max_version`: names of files in `_delta_log/_staged_commits`, or
    a version with such a name, or a version with the bytes of a commit that only the catalog has. They are read in
    place of published ones. None, or no commits: all are published.
    """
    published_only: bool
    """Whether to read a Delta table that a catalog manages without asking the catalog: the versions that are published
    without a gap, each exactly, with a warning that names the last of them (frontier F4.3).
    """
    prune: str
    """What planning skips. `all`, the default, skips data files by partition and statistics, and Iceberg's manifests by
    their summaries, as far as these are trusted (iceberg 3.9). `files` skips no manifest. `partition` skips data files
    by partition alone. `off` reads all files. The last two hold no delete back by statistics.
    """
    format_hint: str | None
    """`iceberg` or `delta`. None: Delta if there is a `_delta_log`, else Iceberg."""
    allowed_roots: Sequence[str]
    """Directories, local paths or URIs, that the table may be read from beside its own location and the targets of
    `path_map`. Relative ones start where the table's location does.
    """
    limits: Limits | None
    """How much memory and how many items the table's metadata may ask for. None: `harness.Limits()`."""


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
