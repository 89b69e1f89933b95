"""The actions of a commit: commitInfo, removals, change files, row ids.

Spec: Delta, "Actions", "Row Tracking", "In-Commit Timestamps".
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.writing.delta.document import DeltaDocument
from harness.writing.delta.files import DataFileHandle
from harness.writing.delta.log import LogState
from harness.writing.delta.types import Json
from harness.writing.delta.values import json_text
from harness.writing.iceberg.store import counted_uuid

ROW_TRACKING_DOMAIN = "delta.rowTracking"
CATALOG_FEATURES = frozenset({"catalogManaged", "catalogOwned-preview"})
"""Features of tables whose commits must name their transaction (frontier F4.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a commit does. Handles and raw actions may be mixed; a raw one is the content under its key.

    actions: whole actions, written first. info: more fields of commitInfo, or None for a commit without one.
    in_commit_timestamp: None: the commit's time where the table has in-commit timestamps. data_change: of adds and
    removes made from handles.
    """

    actions: Sequence[Json] = ()
    add: Sequence[DataFileHandle | Json] = ()
    remove: Sequence[DataFileHandle | Json] = ()
    cdc: Sequence[DataFileHandle | Json] = ()
    operation: str = "WRITE"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    info: Mapping[str, Any] | None = field(default_factory=dict)
    in_commit_timestamp: int | None = None
    data_change: bool = True


def commit_actions(
    change: Change, document: DeltaDocument, state: Callable[[], LogState], version: int, time_ms: int
) -> list[Json]:
    """The actions of a commit in the order in which they are written; adds of handles get their row ids here.

    state: of the table before the commit.
    """
    removes = [removal(r, time_ms, change) if isinstance(r, DataFileHandle) else r for r in change.remove]
    tracked = assigned_rows(document, state, [a for a in change.add if isinstance(a, DataFileHandle)], version)
    adds = [{**a.add, "dataChange": change.data_change} if isinstance(a, DataFileHandle) else a for a in change.add]
    files = [change_file(c) if isinstance(c, DataFileHandle) else c for c in change.cdc]
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


def commit_info(change: Change, document: DeltaDocument, time_ms: int) -> list[Json]:
    """The commitInfo action, with its in-commit timestamp where the table has them; none if it is not wanted."""
    if change.info is None:
        return []
    info: Json = {}
    if change.in_commit_timestamp is not None or document.enabled("delta.enableInCommitTimestamps"):
        asked = change.in_commit_timestamp
        info["inCommitTimestamp"] = time_ms if asked is None else asked
    if document.features & CATALOG_FEATURES:
        info["txnId"] = str(counted_uuid(f"commit at {time_ms}"))
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


def removal(handle: DataFileHandle, time_ms: int, change: Change) -> Json:
    """The `remove` action of a file as it stands now, with its deletion vector."""
    kept = ("partitionValues", "size", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion")
    return {
        "path": handle.path,
        "deletionTimestamp": time_ms,
        "dataChange": change.data_change,
        "extendedFileMetadata": True,
        **{name: handle.add[name] for name in kept if name in handle.add},
    }


def change_file(handle: DataFileHandle) -> Json:
    """The `cdc` action of a change data file."""
    return {**{name: handle.add[name] for name in ("path", "partitionValues", "size")}, "dataChange": False}


def assigned_rows(
    document: DeltaDocument, state: Callable[[], LogState], handles: Iterable[DataFileHandle], version: int
) -> list[Json]:
    """Give row ids to the files that have none, if the table tracks rows; the new high-water mark as an action."""
    if "rowTracking" not in document.features:
        return []
    mark = high_water_mark(state())
    new = [h for h in handles if "baseRowId" not in h.add]
    for handle in new:
        handle.add["baseRowId"] = mark + 1
        handle.add["defaultRowCommitVersion"] = version
        mark += handle.num_records
    configuration = json_text({"rowIdHighWaterMark": mark})
    domain = {"domain": ROW_TRACKING_DOMAIN, "configuration": configuration, "removed": False}
    return [{"domainMetadata": domain}] if new else []


def high_water_mark(state: LogState) -> int:
    """The largest row id ever given out; -1 before the first."""
    domain = state.domains.get(ROW_TRACKING_DOMAIN)
    return -1 if domain is None else int(json.loads(domain["configuration"])["rowIdHighWaterMark"])
