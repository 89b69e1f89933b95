"""Checkpoints of a Delta table as the actions that they stand for (delta L12 to L20)."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import CorruptFileError, InvalidTableError, MissingFileError
from harness.oracle.planner.delta_actions import Action, checked_actions, commit_actions
from harness.oracle.planner.delta_paths import canonical
from harness.storage.stores import Storage
from harness.writing.delta.checkpoint import hint_checksum

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
    _check_column([_sidecar_path(sidecar, paths[0]) for sidecar in sidecars] or paths, storage)
    _check_counts(actions, paths[0], version, storage, is_v2=bool(heads))
    removed = {(body["path"], str(body.get("deletionVector"))) for name, body in actions if name == "remove"}
    added = [(body["path"], str(body.get("deletionVector"))) for name, body in actions if name == "add"]
    if removed & set(added):
        raise _invalid("it adds and removes a file", paths[0], "delta L18")
    return [action for action in actions if action[0] in ("add", "protocol", "metaData")]


def _read_sidecar(sidecar: dict[str, Any], top: str, storage: Storage) -> Iterator[Action]:
    path = _sidecar_path(sidecar, top)
    if storage.size(path) < (sidecar.get("sizeInBytes") or 0):
        message = "A sidecar is cut short"
        raise CorruptFileError(message, cause="LogCorrupt", file=path, rule="delta L15")
    yield from (action for action in _read(path, storage) if action[0] in ("add", "remove"))


def _sidecar_path(sidecar: dict[str, Any], top: str) -> str:
    log = top.rpartition("/")[0]
    bare = "/" not in sidecar["path"] and ":" not in sidecar["path"]
    return canonical(sidecar["path"], f"{log}/_sidecars" if bare else log)


def _read(path: str, storage: Storage) -> list[Action]:
    data = storage.read(path)
    if path.endswith(".json"):
        return commit_actions(data, file=path)
    wanted = [f"{name}.{field}" for name, fields in _COLUMNS.items() for field in fields]
    try:
        parquet = pq.ParquetFile(io.BytesIO(data))
        others = [name for name in parquet.schema_arrow.names if name not in _COLUMNS]
        rows = parquet.read(columns=wanted + others).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        message = f"Cannot read checkpoint: {error}"
        raise CorruptFileError(message, cause="LogCorrupt", file=path, rule="delta L19") from error
    if len(rows) != parquet.metadata.num_rows or any(all(body is None for body in row.values()) for row in rows):
        raise _lost("a row of the checkpoint holds no action", path, "delta L17")
    known = [{name: body for name, body in row.items() if name not in others} for row in rows]
    if any(sum(body is not None for body in row.values()) > 1 for row in known):
        raise _lost("a row of the checkpoint holds several actions", path, "delta L17")
    return [action for row in known for action in checked_actions(_action(row), file=path)]


def _check_column(paths: Sequence[str], storage: Storage) -> None:
    """Refuses a checkpoint where no file that may list live files has the column for them."""
    for path in paths:
        if path.endswith(".json") or "add" in pq.read_schema(io.BytesIO(storage.read(path))).names:
            return
    raise _lost("the checkpoint has no column add", paths[0], "delta L17")


def _check_counts(actions: list[Action], top: str, version: int, storage: Storage, *, is_v2: bool) -> None:
    """Holds the checkpoint against what a sound `_last_checkpoint` says of it."""
    try:
        text = storage.read(f"{top.rpartition('/')[0]}/_last_checkpoint").decode()
        hint = json.loads(text, object_pairs_hook=_each_key_once)
        if hint["version"] != version or hint.get("checksum") not in (None, hint_checksum(text)):
            return
    except (MissingFileError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return
    files, size = hint.get("numOfAddFiles"), hint.get("size")
    adds = sum(name == "add" for name, _ in actions)
    if type(files) is int and files >= 0:
        is_right = files == adds
    else:
        is_right = type(size) is not int or size < 0 or is_v2 or size == len(actions)
    if not is_right:
        raise _lost(
            f"_last_checkpoint says {files} files, {size} actions; found {adds}, {len(actions)}", top, "delta L10"
        )


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


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


def _lost(reason: str, file: str, rule: str) -> CorruptFileError:
    return CorruptFileError(f"Cannot read checkpoint: {reason}", cause="LogCorrupt", file=file, rule=rule)


def _invalid(reason: str, file: str, rule: str) -> InvalidTableError:
    return InvalidTableError(f"Invalid checkpoint: {reason}", cause="LogCorrupt", file=file, rule=rule)
