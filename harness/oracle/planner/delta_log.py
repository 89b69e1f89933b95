"""The log of a Delta table: what lies in it, and the state that replaying it gives (delta sections 1 and 2).

The independence: commits are replayed from the oldest base from which they are all there, version 0 if it is left. So
checkpoints are read only where nothing else remains, compacted commits and `_last_checkpoint` never.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import (
    CorruptFileError,
    HarnessError,
    InvalidTableError,
    MissingFileError,
    SnapshotNotFoundError,
    TableNotFoundError,
)
from harness.oracle.planner.delta_actions import Action, commit_actions, identity
from harness.oracle.planner.delta_checkpoint import checkpoint_actions
from harness.oracle.planner.delta_paths import canonical
from harness.storage.listings import Entry
from harness.storage.paths import join
from harness.storage.stores import Storage

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_COMMIT = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(rf"([0-9]{{20}})\.checkpoint\.(?:parquet|{_UUID}\.(?:json|parquet))")
_PART = re.compile(r"([0-9]{20})\.checkpoint\.([0-9]{10})\.([0-9]{10})\.parquet")
_COMPACTED = re.compile(r"([0-9]{20})\.([0-9]{20})\.compacted\.json")


@dataclass(frozen=True, slots=True)
class Log:
    """The files of a log: commits by version, and complete checkpoints as (version, names of files), ascending.

    held: content of commits that only a catalog holds, by version.
    """

    root: str
    commits: Mapping[int, Entry]
    checkpoints: tuple[tuple[int, tuple[str, ...]], ...]
    latest: int
    held: Mapping[int, bytes] = field(default_factory=dict)

    def path(self, name: str) -> str:
        """The physical path of a file of the log."""
        return join(self.root, "_delta_log", name)

    def actions(self, version: int, storage: Storage) -> list[Action]:
        """The actions of a commit."""
        path = self.path(self.commits[version].name)
        data = self.held[version] if version in self.held else storage.read(path)
        return commit_actions(data, file=path)

    def bases(self, version: int) -> list[tuple[int, tuple[str, ...]]]:
        """The bases of a version, oldest first: (-1, ()) is the empty table before version 0.

        All commits after a base must be there, and that of a checkpoint's own version too (delta L21 to L23).
        """
        possible = [(-1, ()), *self.checkpoints]
        return [
            (base, names)
            for base, names in possible
            if base <= version and all(v in self.commits for v in range(max(base, 0), version + 1))
        ]

    def readable(self) -> list[int]:
        """The versions that can still be read, ascending (delta L29)."""
        full = [v for v, entry in sorted(self.commits.items()) if entry.size > 0]
        starts = {0, *(base for base, _ in self.checkpoints)}
        found: list[int] = []
        for version in full:
            if version in starts or (found and found[-1] == version - 1):
                found.append(version)
        return found


@dataclass(slots=True)
class State:
    """A table at one version: live adds by identity, the protocol and the metadata."""

    version: int
    protocol: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    adds: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)


def list_log(root: str, storage: Storage) -> Log:
    """The log of the table in folder `root`.

    Raises:
        TableNotFoundError: there is none, or nothing in it (delta L4).
    """
    entries = storage.entries(join(root, "_delta_log"))
    commits = {int(match[1]): entry for entry in entries if (match := _COMMIT.fullmatch(entry.name))}
    whole = [e.name for e in entries if e.size != 0]
    single = [(int(match[1]), (name,)) for name in whole if (match := _CHECKPOINT.fullmatch(name))]
    checkpoints = [*single, *_parted(whole)]
    ends = [int(match[2]) for name in whole if (match := _COMPACTED.fullmatch(name)) and match[2] > match[1]]
    versions = [*commits, *(version for version, _ in checkpoints), *ends]
    if not versions:
        raise TableNotFoundError("There is no Delta table: no commit and no checkpoint", table=root, rule="delta L4")
    return Log(root, commits, tuple(sorted(checkpoints)), max(versions))


def load(log: Log, version: int | None, storage: Storage) -> State:
    """The table at a version; None: the latest.

    Raises:
        SnapshotNotFoundError: the log has no such version (any more).
        InvalidTableError, CorruptFileError: the log is broken.
    """
    target = log.latest if version is None else version
    readable = log.readable()
    if not 0 <= target <= log.latest or (readable and target < readable[0]):
        raise SnapshotNotFoundError(f"There is no version {target}", cause="VersionNotFound", rule="delta L32")
    first: HarnessError | None = None
    for base, names in log.bases(target):
        try:
            return _replay(log, base, names, target, storage)
        except (InvalidTableError, MissingFileError) as error:
            first = first or error  # a newer base may do without the file that is broken (delta L5, L19)
    if first is not None:
        raise first
    cause = "LogGap" if readable else "LogTruncated"
    message = f"Commits up to version {target} are missing, and no checkpoint replaces them"
    raise InvalidTableError(message, cause=cause, rule="delta L21")


def _parted(names: list[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Checkpoints in parts of which all are there (delta L12)."""
    matches = [match for name in names if (match := _PART.fullmatch(name))]
    for version, count in sorted({(match[1], match[3]) for match in matches}):
        parts = {int(match[2]): match[0] for match in matches if (match[1], match[3]) == (version, count)}
        wanted = range(1, int(count) + 1)
        if wanted and all(number in parts for number in wanted):
            yield int(version), tuple(parts[number] for number in wanted)


def _replay(log: Log, base: int, names: tuple[str, ...], target: int, storage: Storage) -> State:
    state = State(target)
    if names:
        actions = checkpoint_actions([log.path(name) for name in names], base, storage)
        _apply(state, actions, log.root, log.path(names[0]))
        features = [name.lower() for name in (state.protocol or {}).get("readerFeatures") or ()]
        if len(names) > 1 and "v2checkpoint" in features:
            message = "A table with v2Checkpoint has a checkpoint in parts"
            raise CorruptFileError(message, cause="LogCorrupt", file=names[0], rule="delta L13")
    for version in range(base + 1, target + 1):
        _apply(state, log.actions(version, storage), log.root, log.path(log.commits[version].name))
    if state.protocol is None or state.metadata is None:
        message = f"The log has no protocol or no metaData up to version {target}"
        raise InvalidTableError(message, cause="LogCorrupt", rule="delta L20")
    _check(state)
    return state


def _apply(state: State, actions: list[Action], root: str, file: str) -> None:
    """Adds the actions of one commit, whose order means nothing (delta L26, R1 to R6)."""
    seen: dict[tuple[str, str], str] = {}
    kinds: set[str] = set()
    for kind, body in actions:
        if kind in ("protocol", "metaData"):
            if kind in kinds:
                message = f"A file of the log has two {kind} actions"
                raise InvalidTableError(message, cause="LogCorrupt", file=file, rule="delta L25")
            kinds.add(kind)
            if kind == "protocol":
                state.protocol = body
            else:
                state.metadata = body
        elif kind in ("add", "remove"):
            key = (canonical(body["path"], root), identity(body))
            if key in seen and "add" in (kind, seen[key]):
                message = f"A commit adds {key[0]} twice, or adds and removes it"
                raise InvalidTableError(message, cause="LogCorrupt", file=file, rule="delta L25")
            seen[key] = kind
            state.adds.pop(key, None)
            if kind == "add":
                state.adds[key] = body


def _check(state: State) -> None:
    """delta R3, R13."""
    paths = [path for path, _ in state.adds]
    if len(set(paths)) < len(paths):
        message = "A data file is live with two deletion vectors"
        raise InvalidTableError(message, cause="LogCorrupt", rule="delta R3")
    for (path, _), add in state.adds.items():
        if add["size"] < 0:
            raise InvalidTableError(f"A file has {add['size']} bytes", cause="LogCorrupt", file=path, rule="delta R13")
