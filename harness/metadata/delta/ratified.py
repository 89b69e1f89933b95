"""The log of a table that its catalog manages, held against what is known of the catalog (delta L31, frontier F4).

A published commit is certain and a staged one proves nothing. So which staged commits count, and which version is the
latest, is the catalog's word alone; without it, only the published commits are what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.errors import MissingFileError
from harness.metadata.delta.log_files import LogFile, LogListing
from harness.metadata.delta.segment import readable_ranges, show_ranges
from harness.metadata.plan.read_options import CatalogAnswer, RatifiedCommit
from harness.storage.listings import Entry
from harness.storage.paths import join
from harness.storage.stores import Storage

STAGED_DIRECTORY = "_staged_commits"


def with_answer(listing: LogListing, answer: CatalogAnswer, storage: Storage) -> LogListing:
    """The log as the catalog says: its commits in place of published ones, and nothing above its latest version.

    Raises:
        MissingFileError: a staged commit is not there, nor is its published copy.
    """
    directory = join(listing.directory, STAGED_DIRECTORY)
    named = any(commit.name is not None for commit in answer.ratified)
    staged = {entry.name: entry for entry in storage.entries(directory)} if named else {}
    ratified = {commit.version: _file(commit, directory, staged, listing) for commit in answer.ratified}
    newest = max(listing.commits, default=-1)
    notes: tuple[str, ...] = ()
    if newest > answer.max_version:
        notes = (
            f"The catalog's answer ends at version {answer.max_version}, and the log has published commits up to "
            f"{newest}: ask the catalog again for the newest version (frontier F4.4)",
        )
    known = replace(listing, commits=dict(sorted({**listing.commits, **ratified}.items())))
    return _up_to(known, answer.max_version, notes)


def published(listing: LogListing, *, allow_checkpoint_only: bool = False) -> LogListing:
    """The log up to the end of the versions that are published without a gap (frontier F4.3).

    A published commit that holds nothing ends them with an error, once it is read: its writer did not finish it.
    """
    ranges = readable_ranges(listing, allow_checkpoint_only=allow_checkpoint_only)
    if not ranges:
        return listing
    last = ranges[-1].stop - 1
    if last + 1 in listing.commits:
        return _up_to(listing, last + 1, ())
    beyond = tuple(range(version, version + 1) for version in listing.commits if version > last)
    gap = f", and its log has commits beyond a gap ({show_ranges(beyond)})" if beyond else ""
    note = (
        f"Only what is published was read, up to version {last}: the table's catalog may know newer versions{gap} "
        "(frontier F4.3)"
    )
    return _up_to(listing, last, (note,))


def _file(commit: RatifiedCommit, directory: str, staged: Mapping[str, Entry], listing: LogListing) -> LogFile:
    if commit.name is None:
        path = f"{join(listing.directory, f'{commit.version:020}.json')} (held by the catalog)"
        return LogFile(path, commit.version, len(commit.content or b""), None, commit.content)
    entry = staged.get(commit.name)
    if entry is not None:
        return LogFile(join(directory, commit.name), commit.version, entry.size, entry.modified_ms)
    copy = listing.commits.get(commit.version)
    if copy is not None:  # staged commits are cleaned up once they are published, and a published one is certain
        return copy
    raise MissingFileError(
        f"Cannot find the commit of version {commit.version} that the catalog ratified: there is neither the staged "
        "file nor a published commit; ask the catalog again, and restore the file if it still names it",
        cause="StagedCommitMissing",
        table=listing.root,
        file=join(directory, commit.name),
        rule="frontier F4.4",
    )


def _up_to(listing: LogListing, version: int, notes: tuple[str, ...]) -> LogListing:
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
