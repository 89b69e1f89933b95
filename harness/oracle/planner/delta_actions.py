"""Actions of a Delta log, checked one by one (delta L24, L25, D1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from harness.errors import CorruptFileError, InvalidTableError
from harness.oracle.planner.documents import needed, optional, parse_json

Action: TypeAlias = tuple[str, dict[str, Any]]
"""The name of an action, and what it says."""

_FIELDS: Mapping[str, Mapping[str, type]] = {
    "add": {
        "path": str,
        "partitionValues": dict,
        "size": int,
        "stats": str,
        "deletionVector": dict,
        "baseRowId": int,
        "defaultRowCommitVersion": int,
    },
    "remove": {"path": str, "deletionVector": dict},
    "cdc": {"path": str, "partitionValues": dict, "size": int},
    "protocol": {"minReaderVersion": int, "minWriterVersion": int, "readerFeatures": list, "writerFeatures": list},
    "metaData": {"schemaString": str, "partitionColumns": list, "configuration": dict, "format": dict},
    "txn": {"appId": str, "version": int},
    "domainMetadata": {"domain": str},
    "commitInfo": {},
    "sidecar": {"path": str},
    "checkpointMetadata": {},
}
_NEEDED = {
    "add": ("path", "partitionValues", "size"),
    "remove": ("path",),
    "cdc": ("path", "partitionValues", "size"),
    "protocol": ("minReaderVersion", "minWriterVersion"),
    "metaData": ("partitionColumns", "configuration"),
    "txn": ("appId", "version"),
    "domainMetadata": ("domain",),
}
_VECTOR = {"storageType": str, "pathOrInlineDv": str, "sizeInBytes": int, "cardinality": int}


def commit_actions(data: bytes, *, file: str) -> list[Action]:
    """The actions of a commit, a line each; lines that are blank, and actions that are not known, are passed over.

    Raises:
        CorruptFileError: the file is empty (delta L3), or a line is not one action as it must be (delta L24).
    """
    if not data:
        raise CorruptFileError("A commit is an empty file", cause="LogCorrupt", file=file, rule="delta L3")
    actions: list[Action] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            value = parse_json(line, file=f"{file}, line {number}")
            actions += checked_actions(value, file=f"{file}, line {number}")
    return actions


def checked_actions(value: Any, *, file: str) -> list[Action]:
    """The action of one line or row; none where it is not known.

    Raises:
        CorruptFileError: several actions, or a field that is missing or of another type.
    """
    if not isinstance(value, dict):
        raise _corrupt(f"got {value!r:.80}, expected an object", file)
    known = [(name, body) for name, body in value.items() if name in _FIELDS and body is not None]
    if len(known) > 1:
        raise _corrupt(f"{len(known)} actions in one", file)
    try:
        for name, body in known:
            _check(name, body, file)
    except CorruptFileError:
        raise
    except InvalidTableError as error:
        raise _corrupt(error.message, file) from error
    return known


def identity(body: Mapping[str, Any]) -> str:
    """What tells one deletion vector of a file from another; empty without one (delta R1)."""
    vector = body.get("deletionVector")
    if vector is None:
        return ""
    offset = vector.get("offset")
    return f"{vector['storageType']}{vector['pathOrInlineDv']}" + ("" if offset is None else f"@{offset}")


def _check(name: str, body: Any, file: str) -> None:
    for key in _NEEDED.get(name, ()):
        needed(body, key, _FIELDS[name][key], file=file)
    if not isinstance(body, dict):
        raise _corrupt(f"the {name} is no object", file)
    for key, kind in _FIELDS[name].items():
        optional(body, key, kind, file=file)
    for key in ("partitionValues", "configuration") if name in ("add", "metaData", "cdc") else ():
        if not all(text is None or isinstance(text, str) for text in (body.get(key) or {}).values()):
            raise _corrupt(f"a value of {key} is no text", file)
    for key in ("readerFeatures", "writerFeatures", "partitionColumns"):
        if not all(isinstance(text, str) for text in body.get(key) or ()):
            raise _corrupt(f"{key} holds what is no text", file)
    vector = body.get("deletionVector") if name in ("add", "remove") else None
    if vector is not None:
        for key, kind in _VECTOR.items():
            needed(vector, key, kind, file=file)
        optional(vector, "offset", int, file=file)


def _corrupt(reason: str, file: str) -> CorruptFileError:
    return CorruptFileError(f"Cannot read the log: {reason}", cause="LogCorrupt", file=file, rule="delta L24")
