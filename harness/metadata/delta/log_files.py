"""The files in `_delta_log` by kind and version, told apart by their names alone (delta L1 to L5, L11, L12).

A listing is taken once per table version and never changed: all later work uses it, so files that others write or
clean up meanwhile cannot mix two states (delta L44, L46).
"""

from __future__ import annotations

import enum
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any
from urllib.parse import quote

from harness.errors import LimitError, MissingFileError, TableNotFoundError
from harness.metadata.delta.action_lines import refuse_constant
from harness.metadata.files.documents import HEAD, check_document, file_kind
from harness.storage.gate import IRREGULAR
from harness.storage.limits import DEFAULT, Limits
from harness.storage.paths import PhysicalPath, join
from harness.storage.records import dataclass
from harness.storage.stores import UNREADABLE, Entry, Storage

LOG_DIRECTORY = "_delta_log"
HINT = "_last_checkpoint"

_VERSION = r"[0-9]{20}"
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_COMMIT = re.compile(rf"(?P<version>{_VERSION})\.json")
_CLASSIC = re.compile(rf"(?P<version>{_VERSION})\.checkpoint\.parquet")
_PART = re.compile(rf"(?P<version>{_VERSION})\.checkpoint\.(?P<part>[0-9]{{10}})\.(?P<parts>[0-9]{{10}})\.parquet")
_UUID_NAMED = re.compile(rf"(?P<version>{_VERSION})\.checkpoint\.{_UUID}\.(?:json|parquet)")
_COMPACTION = re.compile(rf"(?P<version>{_VERSION})\.(?P<last>{_VERSION})\.compacted\.json")
_CHECKSUM = re.compile(rf"(?P<version>{_VERSION})\.crc")


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of the log.

    path: physical. version: the (first) version in its name.
    size: in bytes; `harness.storage.stores.UNREADABLE` of what is no regular file.
    modified_ms: last modification, milliseconds since 1970-01-01 UTC; None where the storage does not tell.
    content: of a commit that only the table's catalog holds; None: it is to be read.
    """

    path: PhysicalPath
    version: int
    size: int
    modified_ms: int | None
    content: bytes | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The file's name, without its directory."""
        return self.path.rsplit("/", 1)[-1]


class CheckpointKind(enum.IntEnum):
    """The naming of a checkpoint, ascending in preference at one version (delta L11). It says nothing of V1 or V2."""

    CLASSIC = 0
    MULTI_PART = 1
    UUID = 2


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint (delta L12).

    files: the parts in order; one file unless the kind is MULTI_PART. A UUID checkpoint ends with .json or .parquet.
    """

    version: int
    kind: CheckpointKind
    files: tuple[LogFile, ...]


@dataclass(frozen=True, slots=True)
class Compaction:
    """A file that holds the reconciled actions of the commits first..last, both inclusive (delta L27)."""

    first: int
    last: int
    file: LogFile


@dataclass(frozen=True, slots=True)
class Hint:
    """The word of `_last_checkpoint` that there was a checkpoint of `version`.

    files: live files in it; None: not recorded. actions: all actions in it, tombstones too; None: not recorded.
    """

    version: int
    files: int | None = None
    actions: int | None = None


@dataclass(frozen=True, slots=True)
class LogListing:
    """The files of a log at one moment.

    root: the table's directory, physical.
    commits: the JSON files by version, in ascending order; empty files too.
    checkpoints: the complete ones, ascending by preference; without empty files (delta L3, L12).
    compactions: ascending; without empty files (delta L3). checksums: the .crc files by version.
    hinted: whether there is a `_last_checkpoint`. hint: what is sound in it; None: nothing.
    ceiling: the latest version where the files do not tell it, because a catalog does; None: they do.
    notes: what a user should know about the ceiling, one sentence each.
    allow_checkpoint_only: whether a checkpoint may be read whose version has no commit (delta L23).
    """

    root: PhysicalPath
    commits: Mapping[int, LogFile]
    checkpoints: tuple[Checkpoint, ...] = ()
    compactions: tuple[Compaction, ...] = ()
    checksums: Mapping[int, LogFile] = field(default_factory=dict)
    has_hint: bool = False
    hint: Hint | None = None
    ceiling: int | None = None
    notes: tuple[str, ...] = ()
    allow_checkpoint_only: bool = False

    @property
    def directory(self) -> PhysicalPath:
        """The log's directory, physical."""
        return join(self.root, LOG_DIRECTORY)

    def can_start_from(self, base: Checkpoint) -> bool:
        """True if a base may be read. Without a commit of its version the log may be a partial copy (delta L23)."""
        return self.allow_checkpoint_only or base.version in self.commits

    @property
    def latest(self) -> int:
        """The ceiling, or the greatest version of any commit, complete checkpoint or compaction; -1: there is none."""
        if self.ceiling is not None:
            return self.ceiling
        commit = max(self.commits, default=-1)
        checkpoint = max((c.version for c in self.checkpoints), default=-1)
        return max(commit, checkpoint, max((c.last for c in self.compactions), default=-1))


def list_log(storage: Storage, root: PhysicalPath, listed: tuple[Entry, ...] | None = None) -> LogListing:
    """The log of the table at `root`, a physical path. listed: what was listed of its directory just now.

    Raises TableNotFoundError without a directory, a log, or any commit or checkpoint in the log (delta L4).
    """
    directory = join(root, LOG_DIRECTORY)
    entries = storage.entries(directory) if listed is None else listed
    listing = listing_from_entries(root, entries)
    if listing.latest < 0:
        raise _not_found_error(storage, root, directory, entries)
    return listing


def listing_from_entries(root: PhysicalPath, entries: Iterable[Entry]) -> LogListing:
    """The log files among `entries`, which may come in any order; other names are ignored (delta L1, L2)."""
    directory = join(root, LOG_DIRECTORY)
    commits: dict[int, LogFile] = {}
    checksums: dict[int, LogFile] = {}
    checkpoints: list[Checkpoint] = []
    compactions: list[Compaction] = []
    parts: dict[tuple[int, int], dict[int, LogFile]] = {}
    hinted = False
    for entry in entries:
        hinted = hinted or entry.name == HINT
        digits, dot, _ = entry.name.partition(".")
        if not dot or re.fullmatch(_VERSION, digits) is None:
            continue
        version = int(digits)
        file = LogFile(join(directory, entry.name), version, entry.size, entry.modified_ms)
        if _COMMIT.fullmatch(entry.name):
            commits[version] = file
        elif _CHECKSUM.fullmatch(entry.name):
            checksums[version] = file
        elif entry.size == 0:
            continue  # a torn checkpoint or compaction: as if it were absent (delta L3)
        elif _CLASSIC.fullmatch(entry.name):
            checkpoints.append(Checkpoint(version, CheckpointKind.CLASSIC, (file,)))
        elif _UUID_NAMED.fullmatch(entry.name):
            checkpoints.append(Checkpoint(version, CheckpointKind.UUID, (file,)))
        elif match := _PART.fullmatch(entry.name):
            parts.setdefault((version, int(match["parts"])), {})[int(match["part"])] = file
        elif (match := _COMPACTION.fullmatch(entry.name)) and int(match["last"]) > version:
            compactions.append(Compaction(version, int(match["last"]), file))
    for (version, count), files in parts.items():  # complete with all parts 1..n of the same n (delta L12)
        found = {number: file for number, file in files.items() if 1 <= number <= count}
        if count >= 1 and len(found) == count:
            members = tuple(found[number] for number in sorted(found))
            checkpoints.append(Checkpoint(version, CheckpointKind.MULTI_PART, members))
    return LogListing(
        root,
        dict(sorted(commits.items())),
        tuple(sorted(checkpoints, key=lambda c: (c.version, c.kind, len(c.files), c.files[-1].name))),
        tuple(sorted(compactions, key=lambda compaction: (compaction.first, compaction.last))),
        dict(sorted(checksums.items())),
        hinted,
    )


def _not_found_error(
    storage: Storage, root: PhysicalPath, directory: PhysicalPath, entries: tuple[Entry, ...]
) -> TableNotFoundError:
    if storage.exists(root):
        kind = file_kind(storage.read(root, length=HEAD), root)
        reason = f"it is {kind}; give the directory that contains {LOG_DIRECTORY}"
    elif not storage.is_directory(root):
        reason = "there is no such directory"
    elif not storage.is_directory(directory):
        reason = f"it has no directory {LOG_DIRECTORY}; give the directory that contains it"
    elif all(entry.size == UNREADABLE for entry in entries):
        reason = f"its {LOG_DIRECTORY} is empty"
    else:
        reason = f"its {LOG_DIRECTORY} has neither a commit nor a complete checkpoint"
    return TableNotFoundError(f"Cannot find a Delta table: {reason}", table=root, rule="delta L4")


# The hint `_last_checkpoint`: where a checkpoint may be, if the hint is sound (delta L6 to L10).
#
# It chooses nothing: its counts are held against the checkpoint, its other fields were wrong in real tables.


_CHECKSUM_KEY = "checksum"
_TRIES = 3  # the file is overwritten in place, so one reading can meet half of it


def read_hint(storage: Storage, root: PhysicalPath) -> Hint | None:
    """The hint of the table at `root`; None if there is none, or nothing sound in it (delta L6)."""
    path = join(root, LOG_DIRECTORY, HINT)
    for _ in range(_TRIES):
        try:
            hint = parse_hint(storage.read(path), limits=storage.limits)
        except MissingFileError as error:
            if error.cause == IRREGULAR:
                raise
            return None
        if hint is not None:
            return hint
    return None


def parse_hint(data: bytes, *, limits: Limits = DEFAULT) -> Hint | None:
    """The hint in a file; None if it is not JSON, has a key twice, wrong types, or a wrong checksum (delta L6, L7).

    A hint beyond `limits` is none either.
    """
    try:
        check_document(data, file=HINT, limits=limits)
        document = json.loads(
            data.decode("utf-8"),
            parse_int=_JsonNumber,
            parse_float=_JsonNumber,
            parse_constant=refuse_constant,
            object_pairs_hook=_unique_object,
        )
        version = document.get("version") if isinstance(document, dict) else None
        if not isinstance(version, _JsonNumber) or not version.text.isdigit():
            return None
        recorded = document.get(_CHECKSUM_KEY)
        if recorded is not None and recorded != _digest(document):
            return None
        return Hint(int(version.text), _count(document.get("numOfAddFiles")), _count(document.get("size")))
    except (ValueError, RecursionError, LimitError):  # as are a lone surrogate, and 5,000 digits
        return None


def _count(value: object) -> int | None:
    return int(value.text) if isinstance(value, _JsonNumber) and value.text.isdigit() else None


@dataclass(frozen=True, slots=True)
class _JsonNumber:
    """A JSON number as it was written: the checksum is over its digits."""

    text: str


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _digest(document: dict[str, Any]) -> str:
    summed = {key: value for key, value in document.items() if key != _CHECKSUM_KEY}
    leaves = sorted(("+".join(path), value) for path, value in _leaves(summed, ()))
    canonical = ",".join(f"{path}={value}" for path, value in leaves)
    return hashlib.md5(canonical.encode(), usedforsecurity=False).hexdigest()


def _leaves(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    match value:
        case dict():
            for key, member in value.items():
                yield from _leaves(member, (*path, _quote(key)))
        case list():
            for index, member in enumerate(value):
                yield from _leaves(member, (*path, str(index)))
        case str():
            yield path, _quote(value)
        case _JsonNumber():
            yield path, value.text
        case _:
            yield path, json.dumps(value)


def _quote(text: str) -> str:
    """`text` percent-encoded, but for letters, digits and `-._~`, in quotes."""
    return f'"{quote(text, safe="")}"'
