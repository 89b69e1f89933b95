"""The log of a Delta table: its files, paths and actions, and the state that replaying gives (delta sections 1 and 2).

Commits are replayed from the oldest base from which they are all there, version 0 if it is left. So checkpoints are
read only where nothing else remains, compacted commits and `_last_checkpoint` never: this is what is independent here.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import (
    CorruptFileError,
    HarnessError,
    InvalidTableError,
    MissingFileError,
    SnapshotNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from harness.testing.oracle.documents import needed, optional, parse_json
from harness.testing.oracle.paths import Entry, Files, is_local, join, local_path

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_LOCAL = re.compile(r"file:(?://(?:localhost)?)?(?=/(?!/))", re.IGNORECASE)


def table_root(location: str) -> str:
    """The table's folder: absolute, without a slash at its end."""
    return _normal(os.path.abspath(local_path(location))) if is_local(location) else location.rstrip("/")


def canonical(recorded: str, root: str) -> str:
    """The file that a path in the log names: absolute, decoded once; equal for all spellings (delta L38, L41)."""
    if not recorded:
        raise InvalidTableError("A path in the log is empty", cause="LogCorrupt", rule="delta L25")
    if _LOCAL.match(recorded):
        return _normal(_decoded(_LOCAL.sub("", recorded, count=1)))
    scheme = _SCHEME.match(recorded)
    if scheme is not None and scheme[1].lower() == "file":
        raise UnsupportedError(f"Cannot open {recorded}: it is not on this host", rule="delta L41")
    if scheme is not None:
        return scheme[1].lower() + _remote(_decoded(recorded[scheme.end(1) :]))
    path = _decoded(recorded)
    if is_local(root):
        return _normal(path if path.startswith("/") else f"{root}/{path}")
    store = re.match(r"[^/]*//[^/]*", root)
    return (store[0] if store else "") + _remote(path) if path.startswith("/") else _remote(join(root, path))


def _decoded(text: str) -> str:
    if re.search(r"%(?![0-9A-Fa-f]{2})|%00|\x00", text):
        raise InvalidTableError(f"Invalid escapes in path {text!r}", cause="LogCorrupt", rule="delta L38")
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidTableError(f"Invalid escapes in path {text!r}", cause="LogCorrupt", rule="delta L38") from error


def _normal(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/")


def _remote(uri: str) -> str:
    """The URI without `.` and `..` segments."""
    kept: list[str] = []
    for segment in uri.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    return "/".join(kept)


Action: TypeAlias = tuple[str, dict[str, Any]]
"""The name of an action, and what it says."""

_FILE = {"path": str, "partitionValues": dict, "size": int}
_FIELDS: Mapping[str, Mapping[str, type]] = {
    "add": {**_FILE, "stats": str, "deletionVector": dict, "baseRowId": int, "defaultRowCommitVersion": int},
    "remove": {"path": str, "deletionVector": dict},
    "cdc": _FILE,
    "protocol": {"minReaderVersion": int, "minWriterVersion": int, "readerFeatures": list, "writerFeatures": list},
    "metaData": {"schemaString": str, "partitionColumns": list, "configuration": dict, "format": dict},
    "txn": {"appId": str, "version": int},
    "domainMetadata": {"domain": str},
    "commitInfo": {},
    "sidecar": {"path": str},
    "checkpointMetadata": {},
}
_NEEDED = {
    **dict.fromkeys(("add", "cdc"), tuple(_FILE)),
    "remove": ("path",),
    "protocol": ("minReaderVersion", "minWriterVersion"),
    "metaData": ("partitionColumns", "configuration"),
    "txn": ("appId", "version"),
    "domainMetadata": ("domain",),
}
_VECTOR = {"storageType": str, "pathOrInlineDv": str, "sizeInBytes": int, "cardinality": int}


def _commit_actions(data: bytes, *, file: str) -> list[Action]:
    """The actions of a commit, a line each. Blank lines and unknown actions are passed over (delta L3, L24)."""
    if not data:
        raise CorruptFileError("A commit is an empty file", cause="LogCorrupt", file=file, rule="delta L3")
    actions: list[Action] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            value = parse_json(line, file=f"{file}, line {number}")
            actions += _checked_actions(value, file=f"{file}, line {number}")
    return actions


def _checked_actions(value: Any, *, file: str) -> list[Action]:
    """The action of one line or row; none where it is not known."""
    if not isinstance(value, dict):
        raise _corrupt(f"got {value!r:.80}, expected an object", file)
    known = [(name, body) for name, body in value.items() if name in _FIELDS and body is not None]
    if len(known) > 1:
        raise _corrupt(f"{len(known)} actions in one", file)
    try:
        for name, body in known:
            _check_action(name, body, file)
    except CorruptFileError:
        raise
    except InvalidTableError as error:
        raise _corrupt(error.message, file) from error
    return known


def identity(body: Mapping[str, Any]) -> str:
    """The identity of a file's deletion vector; empty without a vector (delta R1)."""
    vector = body.get("deletionVector")
    if vector is None:
        return ""
    offset = vector.get("offset")
    return f"{vector['storageType']}{vector['pathOrInlineDv']}" + ("" if offset is None else f"@{offset}")


def _check_action(name: str, body: Any, file: str) -> None:
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


_COLUMNS = {
    **{name: tuple(_FIELDS[name]) for name in ("remove", "protocol", "metaData")},
    "add": (*_FIELDS["add"], "stats_parsed.numRecords"),
    "sidecar": ("path", "sizeInBytes"),
    "checkpointMetadata": ("version",),
}
_MAPS = ("partitionValues", "configuration")


def _checkpoint_actions(paths: Sequence[str], version: int, files: Files) -> list[Action]:
    """The actions of a checkpoint and its sidecars, without tombstones (delta L14 to L19)."""
    actions = [action for path in paths for action in _read(path, files)]
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
        path = _sidecar_path(sidecar, paths[0])
        if len(files.read(path)) < (sidecar.get("sizeInBytes") or 0):
            message = "A sidecar is cut short"
            raise CorruptFileError(message, cause="LogCorrupt", file=path, rule="delta L15")
        actions += [action for action in _read(path, files) if action[0] in ("add", "remove")]
    _check_column([_sidecar_path(sidecar, paths[0]) for sidecar in sidecars] or paths, files)
    _check_counts(actions, paths[0], version, files, is_v2=bool(heads))
    removed = {(body["path"], str(body.get("deletionVector"))) for name, body in actions if name == "remove"}
    added = [(body["path"], str(body.get("deletionVector"))) for name, body in actions if name == "add"]
    if removed & set(added):
        raise _invalid("it adds and removes a file", paths[0], "delta L18")
    return [action for action in actions if action[0] in ("add", "protocol", "metaData")]


def _sidecar_path(sidecar: dict[str, Any], top: str) -> str:
    log = top.rpartition("/")[0]
    bare = "/" not in sidecar["path"] and ":" not in sidecar["path"]
    return canonical(sidecar["path"], f"{log}/_sidecars" if bare else log)


def _read(path: str, files: Files) -> list[Action]:
    data = files.read(path)
    if path.endswith(".json"):
        return _commit_actions(data, file=path)
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
    return [action for row in known for action in _checked_actions(_action(row), file=path)]


def _check_column(paths: Sequence[str], files: Files) -> None:
    """Refuses a checkpoint in which no file that may list live files has a column for them."""
    for path in paths:
        if path.endswith(".json") or "add" in pq.read_schema(io.BytesIO(files.read(path))).names:
            return
    raise _lost("the checkpoint has no column add", paths[0], "delta L17")


def _check_counts(actions: list[Action], top: str, version: int, files: Files, *, is_v2: bool) -> None:
    """Holds the checkpoint against what a sound `_last_checkpoint` says of it."""
    try:
        text = files.read(f"{top.rpartition('/')[0]}/_last_checkpoint").decode()
        hint = json.loads(text, object_pairs_hook=_each_key_once)
        if hint["version"] != version or hint.get("checksum") not in (None, hint_checksum(text)):
            return
    except (MissingFileError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return
    count, size = hint.get("numOfAddFiles"), hint.get("size")
    adds = sum(name == "add" for name, _ in actions)
    if type(count) is int and count >= 0:
        is_right = count == adds
    else:
        is_right = type(size) is not int or size < 0 or is_v2 or size == len(actions)
    if not is_right:
        raise _lost(
            f"_last_checkpoint says {count} files, {size} actions; found {adds}, {len(actions)}", top, "delta L10"
        )


class _Number(str):
    """The text of a JSON number, which counts as it is written."""


def hint_checksum(text: str) -> str:
    """The checksum of `_last_checkpoint`: MD5 over its leaves in order, without the checksum itself (delta L8)."""
    document = json.loads(text, parse_float=_Number, parse_int=_Number)
    document.pop("checksum", None)
    leaves = sorted(_leaves(document, ()), key=lambda leaf: leaf[0].encode())
    return hashlib.md5(",".join(f"{path}={value}" for path, value in leaves).encode()).hexdigest()


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for key, item in value.items():
                yield from _leaves(item, (*path, f'"{quote(key, safe="-._~")}"'))
        case list():
            for index, item in enumerate(value):
                yield from _leaves(item, (*path, str(index)))
        case _Number():
            yield "+".join(path), str(value)
        case str():
            yield "+".join(path), f'"{quote(value, safe="-._~")}"'
        case _:
            yield "+".join(path), json.dumps(value)


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
    """The descriptor; None also for a struct of nulls alone, as some writers of Parquet spell a null struct."""
    return None if descriptor is None or all(value is None for value in descriptor.values()) else descriptor


def _lost(reason: str, file: str, rule: str) -> CorruptFileError:
    return CorruptFileError(f"Cannot read checkpoint: {reason}", cause="LogCorrupt", file=file, rule=rule)


def _invalid(reason: str, file: str, rule: str) -> InvalidTableError:
    return InvalidTableError(f"Invalid checkpoint: {reason}", cause="LogCorrupt", file=file, rule=rule)


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

    def actions(self, version: int, files: Files) -> list[Action]:
        """The actions of a commit."""
        path = self.path(self.commits[version].name)
        data = self.held[version] if version in self.held else files.read(path)
        return _commit_actions(data, file=path)

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
class ReplayedState:
    """A table at one version: live adds by identity, the protocol and the metadata."""

    version: int
    protocol: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    adds: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    @property
    def configuration(self) -> Mapping[str, Any]:
        """The table's properties."""
        return (self.metadata or {}).get("configuration") or {}


def list_log(root: str, files: Files) -> Log:
    """The log of the table in folder `root`. Raises TableNotFoundError for an empty log (delta L4)."""
    entries = files.entries(join(root, "_delta_log"))
    commits = {int(match[1]): entry for entry in entries if (match := _COMMIT.fullmatch(entry.name))}
    whole = [e.name for e in entries if e.size != 0]
    single = [(int(match[1]), (name,)) for name in whole if (match := _CHECKPOINT.fullmatch(name))]
    checkpoints = [*single, *_parted(whole)]
    ends = [int(match[2]) for name in whole if (match := _COMPACTED.fullmatch(name)) and match[2] > match[1]]
    versions = [*commits, *(version for version, _ in checkpoints), *ends]
    if not versions:
        raise TableNotFoundError("There is no Delta table: no commit and no checkpoint", table=root, rule="delta L4")
    return Log(root, commits, tuple(sorted(checkpoints)), max(versions))


def load(log: Log, version: int | None, files: Files) -> ReplayedState:
    """The table at a version; None: the latest."""
    target = log.latest if version is None else version
    readable = log.readable()
    if not 0 <= target <= log.latest or (readable and target < readable[0]):
        raise SnapshotNotFoundError(f"There is no version {target}", cause="VersionNotFound", rule="delta L32")
    first: HarnessError | None = None
    for base, names in log.bases(target):
        try:
            return _replay(log, base, names, target, files)
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


def _replay(log: Log, base: int, names: tuple[str, ...], target: int, files: Files) -> ReplayedState:
    state = ReplayedState(target)
    if names:
        actions = _checkpoint_actions([log.path(name) for name in names], base, files)
        _apply(state, actions, log.root, log.path(names[0]))
        features = [name.lower() for name in (state.protocol or {}).get("readerFeatures") or ()]
        if len(names) > 1 and "v2checkpoint" in features:
            message = "A table with v2Checkpoint has a checkpoint in parts"
            raise CorruptFileError(message, cause="LogCorrupt", file=names[0], rule="delta L13")
    for version in range(base + 1, target + 1):
        _apply(state, log.actions(version, files), log.root, log.path(log.commits[version].name))
    if state.protocol is None or state.metadata is None:
        message = f"The log has no protocol or no metaData up to version {target}"
        raise InvalidTableError(message, cause="LogCorrupt", rule="delta L20")
    paths = [path for path, _ in state.adds]
    if len(set(paths)) < len(paths):
        message = "A data file is live with two deletion vectors"
        raise InvalidTableError(message, cause="LogCorrupt", rule="delta R3")
    for (path, _), add in state.adds.items():
        if add["size"] < 0:
            raise InvalidTableError(f"A file has {add['size']} bytes", cause="LogCorrupt", file=path, rule="delta R13")
    return state


def _apply(state: ReplayedState, actions: list[Action], root: str, file: str) -> None:
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
