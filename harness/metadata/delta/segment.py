"""The log files that make up a version: at most one checkpoint, and every commit after it (delta L8 to L29).

If the log is valid, every choice of checkpoint results in the same state. The newest one is the cheapest, so it is
tried first. `LogSegment.fallback` returns the next one if a checkpoint turns out to be unreadable (delta L9, L15, L19).
A hint that differs from the listing only causes a warning (delta L6).
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import TypeVar

from harness.errors import CorruptFileError, InvalidTableError, MissingFileError, SnapshotNotFoundError, without_secrets
from harness.metadata.delta.log_files import Checkpoint, Compaction, Hint, LogFile, LogListing, list_log
from harness.metadata.plan.read_options import CatalogAnswer, RatifiedCommit
from harness.storage.paths import PhysicalPath, join
from harness.storage.records import dataclass
from harness.storage.stores import Entry, Storage

T = TypeVar("T")
_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSegment:
    """The files that make up one version of a table.

    Attributes:
        version: The version.
        checkpoint: The base of the replay. None: the commits start at version 0.
        commits: The JSON files after the base up to `version`, ascending and without gaps.
        compactions: The compacted files to read instead of the commits that they cover, ascending. No version is
            covered twice.
        alternatives: The bases to try if `checkpoint` is unreadable, best first. None at the end means no checkpoint.
        warnings: Irregularities found so far.
        listing: The log that contains the files.
    """

    version: int
    checkpoint: Checkpoint | None
    commits: tuple[LogFile, ...]
    compactions: tuple[Compaction, ...] = ()
    alternatives: tuple[Checkpoint | None, ...] = ()
    warnings: tuple[str, ...] = ()
    listing: LogListing = field(repr=False)

    @property
    def steps(self) -> tuple[LogFile | Compaction, ...]:
        """The steps of the replay after the base, ascending: compactions, and commits that no compaction covers."""
        steps: list[LogFile | Compaction] = []
        covered = -1
        waiting = list(reversed(self.compactions))
        for commit in self.commits:
            if waiting and waiting[-1].first == commit.version:
                compaction = waiting.pop()
                steps.append(compaction)
                covered = compaction.last
            elif commit.version > covered:
                steps.append(commit)
        return tuple(steps)

    @property
    def checksum(self) -> LogFile | None:
        """The .crc file of the version, which is only used for a cross-check (delta L28)."""
        return self.listing.checksums.get(self.version)

    @property
    def hint(self) -> Hint | None:
        """The hint `_last_checkpoint`, or None if it is missing or refers to another checkpoint than the base."""
        hint = self.listing.hint
        return hint if self.checkpoint is not None and hint and hint.version == self.checkpoint.version else None

    def fallback(self, reason: str) -> LogSegment | None:
        """Return a segment for the same version with the next base, or None if there is none (delta L9, L15, L19)."""
        if not self.alternatives:
            return None
        base, *rest = self.alternatives
        consequence = f"Version {self.version} is read from {_show_base(base)}"
        note = f"Cannot use {_show_base(self.checkpoint)}: {reason}. {consequence}"
        return replace(
            self,
            checkpoint=base,
            commits=_commits(self.listing, base, self.version),
            compactions=_pick_compactions(self.listing, base, self.version),
            alternatives=tuple(rest),
            warnings=(*self.warnings, note),
        )

    def without(self, compactions: Iterable[Compaction], reason: str) -> LogSegment:
        """Return a segment for the same version that does not use the given compactions (delta L27).

        It reads the commits or other compactions instead.
        """
        dropped = tuple(compactions)
        listing = replace(self.listing, compactions=tuple(c for c in self.listing.compactions if c not in dropped))
        names = ", ".join(compaction.file.name for compaction in dropped)
        note = f"Cannot use the compacted log file {names}: {reason}. The commits that it covers are read instead"
        return replace(
            self,
            listing=listing,
            compactions=_pick_compactions(listing, self.checkpoint, self.version),
            warnings=(*self.warnings, note),
        )


def choose_segment(listing: LogListing, version: int | None = None) -> LogSegment:
    """Choose the files that make up a version, starting from the newest complete checkpoint.

    Args:
        listing: The log.
        version: The version. None: the latest.

    Raises:
        SnapshotNotFoundError: The log does not, or no longer, contain the version. The message names the versions that
            the log contains (rule delta L32).
        InvalidTableError: Files are missing. The message lists their versions (rules delta L21 to L23).
        CorruptFileError: A required commit is an empty file (rule delta L3).
    """
    readable = readable_ranges(listing)
    target = listing.latest if version is None else version
    if not 0 <= target <= listing.latest or (readable and target < readable[0].start):
        reason = f"the log holds {show_ranges(readable)}" if readable else "the log has no complete version"
        if listing.ceiling is not None:
            reason += f", and {listing.ceiling} is the latest version that its catalog named"
        message = f"Cannot find version {target}: {reason}"
        raise SnapshotNotFoundError(message, cause="VersionNotFound", table=listing.root, rule="delta L32")
    candidates = [c for c in reversed(listing.checkpoints) if c.version <= target]
    checkpoint = candidates[0] if candidates else None
    _check_chain(listing, _first_replayed(checkpoint), target, readable)
    if checkpoint is not None and not listing.can_start_from(checkpoint):
        raise InvalidTableError(
            f"Cannot read version {target}: the log has checkpoint {checkpoint.version} but no commit of that version, "
            "so it may be a partial copy; allow_checkpoint_only reads it anyway",
            cause="LogGap",
            table=listing.root,
            rule="delta L23",
            options=("allow_checkpoint_only",),
        )
    # Other bases, too, need a complete chain of commits up to the version.
    chain = next((run.start for run in _commit_runs(listing) if target in run), target + 1)
    bases = [c for c in candidates[1:] if c.version >= chain - 1 and listing.can_start_from(c)]
    return LogSegment(
        version=target,
        checkpoint=checkpoint,
        commits=_commits(listing, checkpoint, target),
        compactions=_pick_compactions(listing, checkpoint, target),
        alternatives=(*bases, None) if candidates and chain == 0 else tuple(bases),
        warnings=_hint_warnings(listing, target, checkpoint, newest=version is None),
        listing=listing,
    )


def _first_replayed(base: Checkpoint | None) -> int:
    """Return the first version that is replayed after a base."""
    return 0 if base is None else base.version + 1


def readable_ranges(listing: LogListing) -> tuple[range, ...]:
    """Return the versions whose files are all present, as ascending ranges with gaps between them (delta L29)."""
    runs = _commit_runs(listing)
    starts = [run.start for run in runs]
    ranges = [run for run in runs if run.start == 0]
    for checkpoint in listing.checkpoints:
        version = checkpoint.version
        if listing.can_start_from(checkpoint):
            index = bisect.bisect_right(starts, version + 1) - 1
            stop = max(version + 1, runs[index].stop) if index >= 0 and version + 1 in runs[index] else version + 1
            ranges.append(range(version, stop))
    merged: list[range] = []
    for part in sorted(ranges, key=lambda part: (part.start, part.stop)):
        if merged and part.start <= merged[-1].stop:
            merged[-1] = range(merged[-1].start, max(merged[-1].stop, part.stop))
        else:
            merged.append(part)
    return tuple(merged)


def show_ranges(ranges: tuple[range, ...]) -> str:
    """Return versions as text for a message, for example `0 to 3, 10`. Long lists are truncated."""
    texts = [
        str(part.start) if part.stop - part.start == 1 else f"{part.start} to {part.stop - 1}"
        for part in ranges[:_SHOWN]
    ]
    return ", ".join((*texts, "…") if len(ranges) > _SHOWN else texts)


def use_listing(
    storage: Storage, root: PhysicalPath, use: Callable[[LogListing], T], *, listed: tuple[Entry, ...] | None = None
) -> T:
    """Return the result of `use` on the table's log; if log files are missing, list the log again and retry once.

    A listing taken while others write may show a commit without its predecessor (delta L44), and a file may be cleaned
    up between its listing and its reading (delta L45).

    Args:
        storage: The storage that lists the log.
        root: The table's directory.
        use: A function of the listing. It must finish reading the log before it returns.
        listed: The entries of the log's directory, if they were just listed.

    Raises:
        TableNotFoundError: There is no log.
        HarnessError: Any error of `use`. For missing log files, the error of the second attempt.
    """
    listing = list_log(storage, root, listed)
    try:
        return use(listing)
    except MissingFileError as error:
        if error.file is None or not error.file.startswith(without_secrets(listing.directory)):
            raise
    except InvalidTableError as error:
        if error.cause not in ("LogGap", "LogTruncated"):
            raise
    return use(list_log(storage, root))


def _commit_runs(listing: LogListing) -> list[range]:
    """Return the ascending ranges of versions whose commits are all present and not empty."""
    versions = [version for version, file in listing.commits.items() if file.size]
    ends = [i for i in range(1, len(versions)) if versions[i] != versions[i - 1] + 1]
    bounds = itertools.pairwise([0, *ends, len(versions)]) if versions else ()
    return [range(versions[first], versions[last - 1] + 1) for first, last in bounds]


def _commits(listing: LogListing, base: Checkpoint | None, last: int) -> tuple[LogFile, ...]:
    """Return the commits after a base, which must all be present."""
    return tuple(listing.commits[version] for version in range(_first_replayed(base), last + 1))


def _check_chain(listing: LogListing, first: int, target: int, readable: tuple[range, ...]) -> None:
    """Check that the commits from `first` to `target` are all present (delta L21, L22) and not empty (delta L3)."""
    versions = [version for version in listing.commits if first <= version <= target]
    if len(versions) == target - first + 1:
        empty = next((listing.commits[version] for version in versions if listing.commits[version].size == 0), None)
        if empty is not None:
            message = f"Cannot read version {target}: commit {empty.version} is an empty file, so its content was lost"
            raise CorruptFileError(message, cause="LogCorrupt", table=listing.root, file=empty.path, rule="delta L3")
        return
    bounds = zip((first - 1, *versions), (*versions, target + 1), strict=True)
    gaps = tuple(range(low + 1, high) for low, high in bounds if high > low + 1)
    available = f"readable versions: {show_ranges(readable) or 'none'}"
    if first == 0 and gaps[0].start == 0:
        oldest = next(iter(listing.commits), None)
        start = "there are no commits" if oldest is None else f"the oldest commit is {oldest}"
        message = f"Cannot read version {target}: no complete checkpoint up to it, and {start}; {available}"
        raise InvalidTableError(message, cause="LogTruncated", table=listing.root, rule="delta L22")
    again = "" if listing.ceiling is None else "; ask the catalog for its commits again"
    message = f"Cannot read version {target}: the log lacks the commits of {show_ranges(gaps)}; {available}{again}"
    raise InvalidTableError(message, cause="LogGap", table=listing.root, rule="delta L21")


def _pick_compactions(listing: LogListing, base: Checkpoint | None, last: int) -> tuple[Compaction, ...]:
    """Choose compactions after a base that do not overlap, greedily the longest at each version (delta L27)."""
    picked: list[Compaction] = []
    free = _first_replayed(base)
    for compaction in sorted(listing.compactions, key=lambda compaction: (compaction.first, -compaction.last)):
        if compaction.first >= free and compaction.last <= last:
            picked.append(compaction)
            free = compaction.last + 1
    return tuple(picked)


def _hint_warnings(listing: LogListing, target: int, checkpoint: Checkpoint | None, *, newest: bool) -> tuple[str, ...]:
    """Return warnings about a hint that the listing contradicts. A hint that lags behind is normal (delta L8, L9)."""
    hint = listing.hint
    if hint is None:
        return ()
    if hint.version > listing.latest:
        fault = f"_last_checkpoint names version {hint.version}, but the newest in the log is {listing.latest}"
        return (f"{fault}: newer files may be lost",) if newest else ()
    if hint.version <= target and (checkpoint is None or checkpoint.version < hint.version):
        fault = f"_last_checkpoint names checkpoint {hint.version}, which is missing or incomplete"
        return (f"{fault}: version {target} is read from {_show_base(checkpoint)}",)
    return ()


def _show_base(base: Checkpoint | None) -> str:
    return "commit 0" if base is None else base.files[0].name


STAGED_DIRECTORY = "_staged_commits"


def with_catalog_answer(listing: LogListing, answer: CatalogAnswer, storage: Storage) -> LogListing:
    """Return the log as described by the catalog that manages the table (delta L31, frontier F4).

    The catalog's commits replace published ones, and versions after its latest version are dropped. A staged commit
    alone proves nothing: only the catalog knows which staged commits count, and which version is the latest.

    Raises:
        MissingFileError: Neither a staged commit nor its published copy exists.
    """
    directory = join(listing.directory, STAGED_DIRECTORY)
    has_staged = any(commit.name is not None for commit in answer.ratified)
    staged = {entry.name: entry for entry in storage.entries(directory)} if has_staged else {}
    ratified = {commit.version: _ratified_file(commit, directory, staged, listing) for commit in answer.ratified}
    newest = max(listing.commits, default=-1)
    notes: tuple[str, ...] = ()
    if newest > answer.max_version:
        notes = (
            f"The catalog's answer ends at version {answer.max_version}, but the log has published commits up to "
            f"{newest}: ask the catalog again for the newest version (frontier F4.4)",
        )
    with_ratified = replace(listing, commits=dict(sorted({**listing.commits, **ratified}.items())))
    return _truncate(with_ratified, answer.max_version, notes)


def published_listing(listing: LogListing) -> LogListing:
    """Return the log up to the last version that is published without a gap (frontier F4.3)."""
    ranges = readable_ranges(listing)
    if not ranges:
        return listing
    last = ranges[-1].stop - 1
    if last + 1 in listing.commits:
        return _truncate(listing, last + 1, ())
    beyond = tuple(range(version, version + 1) for version in listing.commits if version > last)
    gap = f", and its log has commits beyond a gap ({show_ranges(beyond)})" if beyond else ""
    note = (
        f"Only published versions were read, up to version {last}: the table's catalog may know newer versions{gap} "
        "(frontier F4.3)"
    )
    return _truncate(listing, last, (note,))


def _ratified_file(
    commit: RatifiedCommit, directory: PhysicalPath, staged: Mapping[str, Entry], listing: LogListing
) -> LogFile:
    if commit.name is None:
        path = PhysicalPath(f"{join(listing.directory, f'{commit.version:020}.json')} (held by the catalog)")
        return LogFile(path, commit.version, len(commit.content or b""), None, commit.content)
    entry = staged.get(commit.name)
    if entry is not None:
        return LogFile(join(directory, commit.name), commit.version, entry.size, entry.modified_ms)
    copy = listing.commits.get(commit.version)
    # Staged commits are deleted after they are published, and a published commit is authoritative.
    if copy is not None:
        return copy
    raise MissingFileError(
        f"Cannot find the commit of version {commit.version} that the catalog ratified: there is neither the staged "
        "file nor a published commit; ask the catalog again, and restore the file if it still names it",
        cause="StagedCommitMissing",
        table=listing.root,
        file=join(directory, commit.name),
        rule="frontier F4.4",
    )


def _truncate(listing: LogListing, version: int, notes: tuple[str, ...]) -> LogListing:
    return replace(
        listing,
        commits={v: file for v, file in listing.commits.items() if v <= version},
        checkpoints=tuple(c for c in listing.checkpoints if c.version <= version),
        compactions=tuple(c for c in listing.compactions if c.last <= version),
        checksums={v: file for v, file in listing.checksums.items() if v <= version},
        hint=listing.hint if listing.hint is not None and listing.hint.version <= version else None,
        ceiling=version,
        notes=notes,
    )
