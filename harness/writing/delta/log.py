"""The `_delta_log` directory of a table that is being built: commits and reconciled states.

The actions of every commit stay in memory as parsed JSON, so that states can be computed after files were deleted.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from harness.errors import RequestError
from harness.writing.delta.document import DeltaDocument
from harness.writing.delta.files import DeltaFile
from harness.writing.delta.types import JsonObject
from harness.writing.delta.values import json_text
from harness.writing.local_files import FIRST_TIMESTAMP_MS, copy_with_time, derived_uuid, set_time

SECOND_MS = 1000
STAGED_COMMITS = "_staged_commits"


@dataclass(slots=True)
class LogState:
    """Reconciled actions: the newest action of each kind, and the newest add or remove action of each logical file."""

    protocol: JsonObject | None = None
    metadata: JsonObject | None = None
    transactions: dict[str, JsonObject] = field(default_factory=dict)
    domains: dict[str, JsonObject] = field(default_factory=dict)
    files: dict[tuple[str, str | None], JsonObject] = field(default_factory=dict)

    @property
    def adds(self) -> list[JsonObject]:
        """The `add` actions of live files, oldest first."""
        return [a["add"] for a in self.files.values() if "add" in a]

    @property
    def removes(self) -> list[JsonObject]:
        """The `remove` actions of deleted files (tombstones), oldest first."""
        return [a["remove"] for a in self.files.values() if "remove" in a]

    def apply(self, actions: Iterable[JsonObject]) -> None:
        """Apply the actions of a later commit, which override earlier actions."""
        for action in actions:
            ((kind, content),) = list(action.items())[:1]
            match kind:
                case "protocol":
                    self.protocol = content
                case "metaData":
                    self.metadata = content
                case "txn":
                    self.transactions[content["appId"]] = content
                case "domainMetadata":
                    self.domains[content["domain"]] = content
                case "add" | "remove":
                    key = unquote(content["path"]), vector_id(content.get("deletionVector"))
                    self.files.pop(key, None)
                    self.files[key] = action
                case _:
                    pass

    def metadata_actions(self) -> list[JsonObject]:
        """Return the actions that do not describe files, as a checkpoint lists them."""
        newest = {"protocol": self.protocol, "metaData": self.metadata}
        return [
            *({kind: content} for kind, content in newest.items() if content is not None),
            *({"txn": t} for t in self.transactions.values()),
            *({"domainMetadata": d} for d in self.domains.values() if not d.get("removed")),
        ]


class DeltaLog:
    """A writer of commits. Unless a time is set, each version is one second later than the version before."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.commits: dict[int, list[JsonObject]] = {}
        self.times: dict[int, int] = {}
        self.staged: dict[int, str] = {}

    @property
    def version(self) -> int:
        """The newest version. -1 before the first commit."""
        return max(self.commits, default=-1)

    @property
    def hint_path(self) -> Path:
        """The path of `_last_checkpoint` on disk."""
        return self.directory / "_last_checkpoint"

    def hint(self) -> JsonObject:
        """Return the content of `_last_checkpoint`."""
        content: JsonObject = json.loads(self.hint_path.read_text(encoding="utf-8"))
        return content

    def commit_path(self, version: int) -> Path:
        """Return the path of a published or staged commit on disk, also if the file was deleted."""
        name = self.staged.get(version)
        return self.directory / f"{version:020d}.json" if name is None else self.directory / STAGED_COMMITS / name

    def commit_time(self, version: int) -> int:
        """Return the time of a commit, or the default time of a future commit, in milliseconds since 1970-01-01 UTC."""
        return self.times.get(version, FIRST_TIMESTAMP_MS + SECOND_MS * version)

    def write(self, version: int, actions: Sequence[JsonObject], raw: Sequence[str], timestamp: int) -> None:
        """Write a commit: one line for each action, followed by the raw lines.

        Args:
            version: The version.
            actions: The actions.
            raw: Further lines.
            timestamp: The modification time in milliseconds since 1970-01-01 UTC.
        """
        self.commits[version] = copy.deepcopy(list(actions))
        self.times[version] = timestamp
        self.rewrite(version, raw)

    def rewrite(self, version: int, raw: Sequence[str] = ()) -> None:
        """Write the file of a commit from the actions in memory, with its modification time."""
        lines = [*map(json_text, self.commits[version]), *raw]
        self.write_text(self.commit_path(version), "".join(f"{line}\n" for line in lines), self.times[version])

    def stage(self, version: int, *, published: bool = False) -> str:
        """Move the file of a commit to the staged commits, as if its catalog had not published it.

        Args:
            version: The version.
            published: If true, leave a copy at the published path.

        Returns:
            The name of the staged file.
        """
        source = self.commit_path(version)
        name = self.staged[version] = f"{version:020d}.{derived_uuid(f'staged commit {version}')}.json"
        target = self.commit_path(version)
        target.parent.mkdir(exist_ok=True)
        copy_with_time(source, target)
        if not published:
            source.unlink()
        return name

    def remove_commit_file(self, version: int) -> bytes:
        """Delete the file of a commit and return its content, as if only the catalog had it."""
        path = self.commit_path(version)
        content = path.read_bytes()
        path.unlink()
        return content

    def write_text(self, path: Path, text: str, time_ms: int) -> None:
        """Write a text file of the log with a modification time."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
        set_time(path, time_ms)

    def edit(self, version: int, change: Callable[[list[JsonObject]], object]) -> None:
        """Change the actions of a commit in place and rewrite its file with the same modification time."""
        change(self.commits[version])
        self.rewrite(version)

    def state(self, version: int | None = None, *, first: int = 0) -> LogState:
        """Return the state at a version, computed from the commits from `first` on. None for the newest version.

        Raises:
            RequestError: There is no such version.
        """
        version = self.version if version is None else version
        if version not in self.commits:
            raise RequestError(f"The table has no version {version}; the newest is {self.version}")
        state = LogState()
        for number in sorted(self.commits):
            if first <= number <= version:
                state.apply(self.commits[number])
        return state

    def newest_state(self) -> LogState:
        """Return the state at the newest version, which is empty before the first commit."""
        return self.state() if self.commits else LogState()

    def write_compaction(self, first: int, last: int) -> Path:
        """Write `first.last.compacted.json`: the reconciled actions of these commits, with their tombstones."""
        state = self.state(last, first=first)
        removed = [{"domainMetadata": d} for d in state.domains.values() if d.get("removed")]
        path = self.directory / f"{first:020d}.{last:020d}.compacted.json"
        actions = [*state.metadata_actions(), *removed, *state.files.values()]
        self.write_text(path, "".join(f"{json_text(a)}\n" for a in actions), self.commit_time(last))
        return path

    def write_checksum(self, version: int, extra: JsonObject) -> Path:
        """Write `version.crc`, with the fields of `extra` added or replaced, and return its path."""
        state = self.state(version)
        path = self.directory / f"{version:020d}.crc"
        vectors = [a["deletionVector"] for a in state.adds if a.get("deletionVector")]
        checksum = {
            "tableSizeBytes": sum(a["size"] for a in state.adds),
            "numFiles": len(state.adds),
            "numDeletedRecordsOpt": sum(v["cardinality"] for v in vectors),
            "numDeletionVectorsOpt": len(vectors),
            "numMetadata": 1,
            "numProtocol": 1,
            "setTransactions": list(state.transactions.values()),
            "domainMetadata": [d for d in state.domains.values() if not d.get("removed")],
            "metadata": state.metadata,
            "protocol": state.protocol,
            "allFiles": state.adds,
        }
        self.write_text(path, json_text({**checksum, **extra}), self.commit_time(version))
        return path


def vector_id(descriptor: JsonObject | None) -> str | None:
    """Return the identity of a deletion vector among the vectors of one data file (delta R1)."""
    if descriptor is None:
        return None
    offset = descriptor.get("offset")
    return f"{descriptor['storageType']}{descriptor['pathOrInlineDv']}{'' if offset is None else f'@{offset}'}"


ROW_TRACKING_DOMAIN = "delta.rowTracking"
CATALOG_FEATURES = frozenset({"catalogManaged", "catalogOwned-preview"})
"""Features of tables whose commits must record a transaction id (frontier F4.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """The content of a commit. Files are given as handles or as the content of raw actions.

    Attributes:
        actions: Whole actions, which come first.
        add: Files to add.
        remove: Files to remove.
        cdc: Change data files.
        operation: The operation in commitInfo.
        parameters: The operation's parameters in commitInfo.
        info: Further fields of commitInfo. None for a commit without commitInfo.
        in_commit_timestamp: The in-commit timestamp in milliseconds since 1970-01-01 UTC. None for the commit's time if
            the table has in-commit timestamps.
        data_change: The `dataChange` of add and remove actions made from handles.
    """

    actions: Sequence[JsonObject] = ()
    add: Sequence[DeltaFile | JsonObject] = ()
    remove: Sequence[DeltaFile | JsonObject] = ()
    cdc: Sequence[DeltaFile | JsonObject] = ()
    operation: str = "WRITE"
    parameters: Mapping[str, object] = field(default_factory=dict)
    info: Mapping[str, Any] | None = field(default_factory=dict)
    in_commit_timestamp: int | None = None
    data_change: bool = True


def commit_actions(
    change: CommitRequest, document: DeltaDocument, state: Callable[[], LogState], version: int, time_ms: int
) -> list[JsonObject]:
    """Return the actions of a commit in the order of the file, and assign row ids to the added handles.

    Args:
        change: The content of the commit.
        document: The table's document.
        state: A function that returns the state of the table before the commit.
        version: The version of the commit.
        time_ms: The time of the commit in milliseconds since 1970-01-01 UTC.
    """
    removes = [remove_action(r, time_ms, change) if isinstance(r, DeltaFile) else r for r in change.remove]
    tracked = _assign_row_ids(document, state, [a for a in change.add if isinstance(a, DeltaFile)], version)
    adds = [{**a.add, "dataChange": change.data_change} if isinstance(a, DeltaFile) else a for a in change.add]
    copied_keys = ("path", "partitionValues", "size")
    files = [
        {**{name: c.add[name] for name in copied_keys}, "dataChange": False} if isinstance(c, DeltaFile) else c
        for c in change.cdc
    ]
    return copy.deepcopy(
        [
            *commit_info(change, document, time_ms),
            *change.actions,
            *tracked,
            *({"remove": r} for r in removes),
            *({"add": a} for a in adds),
            *({"cdc": c} for c in files),
        ]
    )


def commit_info(change: CommitRequest, document: DeltaDocument, time_ms: int) -> list[JsonObject]:
    """Return the commitInfo action in a list, or an empty list if the commit has none.

    The action contains an in-commit timestamp if the table has them.
    """
    if change.info is None:
        return []
    info: JsonObject = {}
    if change.in_commit_timestamp is not None or document.is_enabled("delta.enableInCommitTimestamps"):
        timestamp = change.in_commit_timestamp
        info["inCommitTimestamp"] = time_ms if timestamp is None else timestamp
    if document.features & CATALOG_FEATURES:
        info["txnId"] = str(derived_uuid(f"commit at {time_ms}"))
    return [
        {
            "commitInfo": {
                **info,
                "timestamp": time_ms,
                "operation": change.operation,
                "operationParameters": dict(change.parameters),
                "engineInfo": "harness",
                **change.info,
            }
        }
    ]


def remove_action(handle: DeltaFile, time_ms: int, change: CommitRequest) -> JsonObject:
    """Return the content of the `remove` action of a file with its current deletion vector."""
    copied_keys = ("partitionValues", "size", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion")
    return {
        "path": handle.path,
        "deletionTimestamp": time_ms,
        "dataChange": change.data_change,
        "extendedFileMetadata": True,
        **{name: handle.add[name] for name in copied_keys if name in handle.add},
    }


def _assign_row_ids(
    document: DeltaDocument, state: Callable[[], LogState], handles: Iterable[DeltaFile], version: int
) -> list[JsonObject]:
    """Assign row ids to the files that have none, and return the new high-water mark as an action.

    The list is empty if the table does not track rows or no file needs row ids.
    """
    if "rowTracking" not in document.features:
        return []
    mark = _high_water_mark(state())
    new = [h for h in handles if "baseRowId" not in h.add]
    for handle in new:
        handle.add["baseRowId"] = mark + 1
        handle.add["defaultRowCommitVersion"] = version
        mark += handle.num_records
    configuration = json_text({"rowIdHighWaterMark": mark})
    domain = {"domain": ROW_TRACKING_DOMAIN, "configuration": configuration, "removed": False}
    return [{"domainMetadata": domain}] if new else []


def _high_water_mark(state: LogState) -> int:
    """Return the largest assigned row id, or -1 if there is none."""
    domain = state.domains.get(ROW_TRACKING_DOMAIN)
    return -1 if domain is None else int(json.loads(domain["configuration"])["rowIdHighWaterMark"])
