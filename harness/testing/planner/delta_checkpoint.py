"""Checkpoints of a Delta table as the actions that they stand for (delta L12 to L20)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import CorruptFileError, InvalidTableError
from harness.storage import Storage
from harness.testing.planner.delta_actions import Action, checked_actions, commit_actions
from harness.testing.planner.delta_paths import canonical

_COLUMNS = {
    "add": (
        "path",
        "partitionValues",
        "size",
        "stats",
        "stats_parsed.numRecords",
        "deletionVector",
        "baseRowId",
        "defaultRowCommitVersion",
    ),
    "remove": ("path", "deletionVector"),
    "protocol": ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures"),
    "metaData": ("schemaString", "partitionColumns", "configuration", "format"),
    "sidecar": ("path", "sizeInBytes"),
    "checkpointMetadata": ("version",),
}
_MAPS = ("partitionValues", "configuration")


def checkpoint_actions(paths: Sequence[str], version: int, storage: Storage) -> list[Action]:
    """The actions in the files of one checkpoint, those of its sidecars included; tombstones are left out (L18).

    Raises:
        CorruptFileError, MissingFileError: a file cannot be read, or is cut short (delta L15, L19).
        InvalidTableError: it contradicts itself (delta L14, L18).
    """
    actions = [action for path in paths for action in _read(path, storage)]
    top = {name for name, _ in actions}
    sidecars = [body for name, body in actions if name == "sidecar"]
    heads = [body for name, body in actions if name == "checkpointMetadata"]
    is_named = paths[0].count(".") == 3 and ".checkpoint.parquet" not in paths[0].rsplit("/", 1)[-1]
    if len(heads) > 1 or ((is_named or sidecars) and not heads):
        raise _invalid(f"it has {len(heads)} checkpointMetadata", paths[0], "delta L14")
    if heads and heads[0].get("version") != version:
        raise _invalid(f"it says that it is of version {heads[0].get('version')}", paths[0], "delta L14")
    if sidecars and top & {"add", "remove"}:
        raise _invalid("it has files of its own beside sidecars", paths[0], "delta L16")
    for sidecar in sidecars:
        actions += _read_sidecar(sidecar, paths[0], storage)
    removed = {(body["path"], str(body.get("deletionVector"))) for name, body in actions if name == "remove"}
    added = [(body["path"], str(body.get("deletionVector"))) for name, body in actions if name == "add"]
    if removed & set(added):
        raise _invalid("it adds and removes a file", paths[0], "delta L18")
    return [action for action in actions if action[0] in ("add", "protocol", "metaData")]


def _read_sidecar(sidecar: dict[str, Any], top: str, storage: Storage) -> Iterator[Action]:
    log = top.rpartition("/")[0]
    bare = "/" not in sidecar["path"] and ":" not in sidecar["path"]
    path = canonical(sidecar["path"], f"{log}/_sidecars" if bare else log)
    if storage.size(path) < (sidecar.get("sizeInBytes") or 0):
        message = "A sidecar is cut short"
        raise CorruptFileError(message, cause="LogCorrupt", file=path, rule="delta L15")
    yield from (action for action in _read(path, storage) if action[0] in ("add", "remove"))


def _read(path: str, storage: Storage) -> list[Action]:
    data = storage.read(path)
    if path.endswith(".json"):
        return commit_actions(data, file=path)
    wanted = [f"{name}.{field}" for name, fields in _COLUMNS.items() for field in fields]
    try:
        rows = pq.ParquetFile(io.BytesIO(data)).read(columns=wanted).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        message = f"Cannot read checkpoint: {error}"
        raise CorruptFileError(message, cause="LogCorrupt", file=path, rule="delta L19") from error
    return [action for row in rows for action in checked_actions(_action(row), file=path)]


def _action(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {key: dict(value) if key in _MAPS and value is not None else value for key, value in body.items()}
        | ({"deletionVector": _vector(body["deletionVector"])} if "deletionVector" in body else {})
        for name, body in row.items()
        if body is not None
    }


def _vector(descriptor: dict[str, Any] | None) -> dict[str, Any] | None:
    """None also for a struct of nothing but nulls, which is how some writers of Parquet spell a null struct."""
    return None if descriptor is None or all(value is None for value in descriptor.values()) else descriptor


def _invalid(reason: str, file: str, rule: str) -> InvalidTableError:
    return InvalidTableError(f"Invalid checkpoint: {reason}", cause="LogCorrupt", file=file, rule=rule)
