"""The files in `_delta_log` by kind and version, recognized by their names alone (delta L1 to L5, L11, L12).

The log is listed once for each opened table and the listing never changes. All later work uses it, so files that others
write or clean up in the meantime cannot mix two states (delta L44, L46).
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

    Attributes:
        path: The physical path.
        version: The version in its name, or the first one if there are two.
        size: The size in bytes, or `harness.storage.stores.UNREADABLE` if it is not a regular file.
        modified_ms: The time of the last modification, in milliseconds since 1970-01-01 UTC. None: the storage does not
            provide it.
        content: The content of a commit that only the table's catalog holds. None: the file has to be read.
    """

    path: PhysicalPath
    version: int
    size: int
    modified_ms: int | None
    content: bytes | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The file name without the directory."""
        return self.path.rsplit("/", 1)[-1]


class CheckpointKind(enum.IntEnum):
    """The naming scheme of a checkpoint, in ascending order of preference at one version (delta L11).

    The kind does not determine whether the checkpoint has layout V1 or V2.
    """

    CLASSIC = 0
    MULTI_PART = 1
    UUID = 2


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint (delta L12).

    Attributes:
        version: The version.
        kind: The naming scheme.
        files: The parts in order. There is one file unless the kind is MULTI_PART. The file of a UUID checkpoint ends
            with .json or .parquet.
    """

    version: int
    kind: CheckpointKind
    files: tuple[LogFile, ...]


@dataclass(frozen=True, slots=True)
class Compaction:
    """A file with the reconciled actions of a range of commits (delta L27).

    Attributes:
        first: The first version that it covers.
        last: The last version that it covers.
        file: The file.
    """

    first: int
    last: int
    file: LogFile


@dataclass(frozen=True, slots=True)
class Hint:
    """The content of `_last_checkpoint`, which refers to a checkpoint of `version`.

    Attributes:
        version: The version of the checkpoint.
        files: The number of live files in it. None: not recorded.
        actions: The number of all actions in it, including tombstones. None: not recorded.
    """

    version: int
    files: int | None = None
    actions: int | None = None


@dataclass(frozen=True, slots=True)
class LogListing:
    """The files of a log at one moment.

    Attributes:
        root: The table's directory, a physical path.
        commits: The JSON files by version, in ascending order, including empty files.
        checkpoints: The complete checkpoints in ascending order of preference, without empty files (delta L3, L12).
        compactions: The compacted commits in ascending order, without empty files (delta L3).
        checksums: The .crc files by version.
        has_hint: True if there is a `_last_checkpoint`.
        hint: The valid content of the hint. None: the hint is missing or invalid.
        ceiling: The latest version according to a catalog. None: the files determine the latest version.
        notes: Sentences for the user about the ceiling.
        allow_checkpoint_only: True if a checkpoint may be read if its version has no commit (delta L23).
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
        """The log's directory, a physical path."""
        return join(self.root, LOG_DIRECTORY)

    def can_start_from(self, base: Checkpoint) -> bool:
        """Return whether a read may start from a checkpoint.

        If the checkpoint's version has no commit, the log may be a partial copy. The result is then False, unless
        `allow_checkpoint_only` is set (delta L23).
        """
        return self.allow_checkpoint_only or base.version in self.commits

    @property
    def latest(self) -> int:
        """The latest version, or -1 if there is none.

        It is the ceiling, or else the greatest version of any commit, complete checkpoint, or compaction.
        """
        if self.ceiling is not None:
            return self.ceiling
        commit = max(self.commits, default=-1)
        checkpoint = max((c.version for c in self.checkpoints), default=-1)
        return max(commit, checkpoint, max((c.last for c in self.compactions), default=-1))


def list_log(storage: Storage, root: PhysicalPath, listed: tuple[Entry, ...] | None = None) -> LogListing:
    """List the log of a table.

    Args:
        storage: The storage that lists the log.
        root: The table's directory, a physical path.
        listed: The entries of the log's directory, if they were just listed.

    Raises:
        TableNotFoundError: There is no directory, no log, or neither a commit nor a checkpoint in the log (rule delta
            L4).
    """
    directory = join(root, LOG_DIRECTORY)
    entries = storage.entries(directory) if listed is None else listed
    listing = listing_from_entries(root, entries)
    if listing.latest < 0:
        raise _not_found_error(storage, root, directory, entries)
    return listing


def listing_from_entries(root: PhysicalPath, entries: Iterable[Entry]) -> LogListing:
    """Return the log files among directory entries in any order. Files with other names are ignored (delta L1, L2)."""
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
            continue  # a partially written file counts as absent (delta L3)
        elif _CLASSIC.fullmatch(entry.name):
            checkpoints.append(Checkpoint(version, CheckpointKind.CLASSIC, (file,)))
        elif _UUID_NAMED.fullmatch(entry.name):
            checkpoints.append(Checkpoint(version, CheckpointKind.UUID, (file,)))
        elif match := _PART.fullmatch(entry.name):
            parts.setdefault((version, int(match["parts"])), {})[int(match["part"])] = file
        elif (match := _COMPACTION.fullmatch(entry.name)) and int(match["last"]) > version:
            compactions.append(Compaction(version, int(match["last"]), file))
    # a checkpoint is complete if it has all parts 1 to n of the same n (delta L12)
    for (version, count), files in parts.items():
        complete = {number: file for number, file in files.items() if 1 <= number <= count}
        if count >= 1 and len(complete) == count:
            members = tuple(complete[number] for number in sorted(complete))
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


# The hint `_last_checkpoint` (delta L6 to L10) is never used to choose files. Its counts are compared with the
# checkpoint. Its other fields were wrong in real tables.


_CHECKSUM_KEY = "checksum"
_TRIES = 3  # the file is overwritten in place, so a read may see a partially written file


def read_hint(storage: Storage, root: PhysicalPath) -> Hint | None:
    """Return the hint of the table at `root`, or None if it is missing or invalid (delta L6)."""
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
    """Parse a hint; return None if it is invalid or exceeds the limits.

    A hint is invalid if it is not JSON, has a duplicate key, a value of the wrong type, or a wrong checksum (delta L6,
    L7).
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
    # ValueError also covers a lone surrogate and an integer of 5,000 digits
    except (ValueError, RecursionError, LimitError):
        return None


def _count(value: object) -> int | None:
    return int(value.text) if isinstance(value, _JsonNumber) and value.text.isdigit() else None


@dataclass(frozen=True, slots=True)
class _JsonNumber:
    """A JSON number as text, because the checksum is computed from its digits."""

    text: str


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key occurs twice in one object")
    return members


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
    """Return `text` in quotes. Characters other than letters, digits, and `-._~` are percent-encoded."""
    return f'"{quote(text, safe="")}"'
