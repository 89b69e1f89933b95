"""The log of a Delta table: its files, paths, and actions, and the state that results from replaying it.

Replay starts at the oldest base that is followed by all commits, which is version 0 if the log is complete. Checkpoints
are therefore read only if commits are missing. Compacted commits are never replayed, because writers may omit them.
`_last_checkpoint` is only used to check the counts of a checkpoint.

Spec: Delta, "Delta Log Entries", "Checkpoints", "Actions", "Action Reconciliation" (delta L1 to L41, R1 to R13).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from harness import errors
from harness.suite.oracle.documents import mapping, optional_value, parse_json, required_value
from harness.suite.oracle.paths import Entry, Files, is_local, join, local_path

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_LOCAL = re.compile(r"file:(?://(?:localhost)?)?(?=/(?!/))", re.IGNORECASE)


def _corrupt_log(reason: str, file: str | None, rule: str) -> errors.CorruptFileError:
    return errors.CorruptFileError(f"Cannot read the log: {reason}", cause="LogCorrupt", file=file, rule=rule)


def log_error(reason: str, file: str | None, rule: str) -> errors.InvalidTableError:
    """Return the error for a log that contradicts itself or lacks a required part."""
    return errors.InvalidTableError(f"Invalid log: {reason}", cause="LogCorrupt", file=file, rule=rule)


def table_root(location: str) -> str:
    """Return the table's absolute directory, without a trailing slash."""
    return _normalized(os.path.abspath(local_path(location))) if is_local(location) else location.rstrip("/")


def canonical_path(recorded: str, root: str) -> str:
    """Return the absolute decoded path of a file, the same for all spellings in the log (delta L38, L41)."""
    if not recorded:
        raise log_error("a path is empty", None, "delta L25")
    if _LOCAL.match(recorded):
        return _normalized(_percent_decoded(_LOCAL.sub("", recorded, count=1)))
    scheme = _SCHEME.match(recorded)
    if scheme is not None and scheme[1].lower() == "file":
        raise errors.UnsupportedError(f"Cannot open {recorded}: it is not on this host", rule="delta L41")
    if scheme is not None:
        return scheme[1].lower() + _normalized_uri(_percent_decoded(recorded[scheme.end(1) :]))
    path = _percent_decoded(recorded)
    if is_local(root):
        return _normalized(path if path.startswith("/") else f"{root}/{path}")
    store = re.match(r"[^/]*//[^/]*", root)
    return (
        (store[0] if store else "") + _normalized_uri(path)
        if path.startswith("/")
        else _normalized_uri(join(root, path))
    )


def _percent_decoded(text: str) -> str:
    try:
        if not re.search(r"%(?![0-9A-Fa-f]{2})|%00|\x00", text):
            return unquote(text, errors="strict")
    except UnicodeDecodeError:
        pass
    raise log_error(f"path {text!r} has wrong escapes, or a NUL", None, "delta L38")


def _normalized(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/")


def _normalized_uri(uri: str) -> str:
    """Return the URI without `.` and `..` segments."""
    segments: list[str] = []
    for segment in uri.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment != ".":
            segments.append(segment)
    return "/".join(segments)


Action: TypeAlias = tuple[str, dict[str, Any]]
"""The name of an action and its content."""

_FILE = {"path": str, "partitionValues": dict, "size": int, "dataChange?": bool}
_FIELDS: Mapping[str, Mapping[str, type]] = {
    "add": {**_FILE, "stats?": str, "deletionVector?": dict, "baseRowId?": int, "defaultRowCommitVersion?": int},
    "remove": {"path": str, "partitionValues?": dict, "stats?": str, "deletionVector?": dict, "dataChange?": bool},
    "cdc": _FILE,
    "protocol": {"minReaderVersion": int, "minWriterVersion": int, "readerFeatures?": list, "writerFeatures?": list},
    "metaData": {"schemaString?": str, "partitionColumns": list, "configuration": dict, "format?": dict},
    "txn": {"appId": str, "version": int},
    "domainMetadata": {"domain": str},
    "commitInfo": {},
    "sidecar": {"path?": str},
    "checkpointMetadata": {},
}
"""The fields of each action that a reader needs. Fields with a question mark may be absent or null."""
_MAPS = ("partitionValues", "configuration")
_VECTOR = {"storageType": str, "pathOrInlineDv": str, "sizeInBytes": int, "cardinality": int, "offset?": int}


def _commit_actions(data: bytes, *, file: str) -> list[Action]:
    """Return the actions of a commit, one per line. Blank lines and unknown actions are skipped (delta L3, L24)."""
    if not data:
        raise _corrupt_log("a commit is an empty file", file, "delta L3")
    actions: list[Action] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            place = f"{file}, line {number}"
            try:
                actions += _parse_action(parse_json(line), place)
            except errors.HarnessError as error:
                raise error.within(file=place) from error.__cause__
    return actions


def _parse_action(value: object, file: str) -> list[Action]:
    """Return the action of a line or row as a list, which is empty if the action is unknown."""
    if not isinstance(value, dict):
        raise _corrupt_log(f"got {value!r:.80}, expected an object", file, "delta L24")
    actions = [(name, body) for name, body in value.items() if name in _FIELDS and body is not None]
    if len(actions) > 1:
        raise _corrupt_log(f"{len(actions)} actions in one object", file, "delta L24")
    for name, body in actions:
        try:
            mapping(body)
            _check_fields(body, _FIELDS[name])
            if name in ("add", "remove") and body.get("deletionVector") is not None:
                _check_fields(body["deletionVector"], _VECTOR)
        except errors.InvalidTableError as error:
            raise _corrupt_log(error.message, file, "delta L24") from error
        fields = [(key.rstrip("?"), kind) for key, kind in _FIELDS[name].items()]
        texts = [text for key, kind in fields if kind is list for text in body.get(key) or ()]
        texts += [t for key, _ in fields if key in _MAPS for t in (body.get(key) or {}).values() if t is not None]
        if not all(isinstance(text, str) for text in texts):
            raise _corrupt_log(f"a value of the {name} is not text", file, "delta L24")
    return actions


def _check_fields(body: Any, fields: Mapping[str, type]) -> None:
    for key, kind in fields.items():
        if key.endswith("?"):
            optional_value(body, key[:-1], kind)
        else:
            required_value(body, key, kind)


_COLUMNS = {
    **{name: [key.rstrip("?") for key in _FIELDS[name]] for name in ("add", "remove", "protocol", "metaData")},
    "sidecar": ["path", "sizeInBytes"],
    "checkpointMetadata": ["version"],
}
_COLUMNS["add"].append("stats_parsed.numRecords")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, object]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


class _NumberText(str):
    """The text of a JSON number, because the checksum depends on its spelling."""


def hint_checksum(text: str) -> str:
    """Return the checksum of `_last_checkpoint`: MD5 over its values in order, without the checksum (delta L8)."""
    document = json.loads(text, parse_float=_NumberText, parse_int=_NumberText)
    document.pop("checksum", None)
    leaves = sorted(_leaves(document, ""), key=lambda leaf: leaf[0].encode())
    return hashlib.md5(",".join(f"{path[1:]}={value}" for path, value in leaves).encode()).hexdigest()


def _leaves(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f'{path}+"{quote(key, safe="-._~")}"')
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}+{index}")
    elif isinstance(value, str):
        yield path, value if isinstance(value, _NumberText) else f'"{quote(value, safe="-._~")}"'
    else:
        yield path, json.dumps(value)


_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_COMMIT = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(rf"([0-9]{{20}})\.checkpoint\.(?:parquet|{_UUID}\.(?:json|parquet))")
_PART = re.compile(r"([0-9]{20})\.checkpoint\.([0-9]{10})\.([0-9]{10})\.parquet")
_COMPACTED = re.compile(r"([0-9]{20})\.([0-9]{20})\.compacted\.json")


@dataclass(frozen=True)
class Log:
    """The log of a table.

    Attributes:
        commits: Directory entries of commits by version, in ascending order.
        checkpoints: Complete checkpoints as (version, file names), in ascending order.
        catalog_commits: The content of commits that only the catalog has, by version.
    """

    root: str
    commits: Mapping[int, Entry]
    checkpoints: tuple[tuple[int, tuple[str, ...]], ...]
    latest: int
    files: Files
    catalog_commits: Mapping[int, bytes] = field(default_factory=dict)

    def path(self, name: str) -> str:
        """Return the physical path of a file in the log."""
        return join(self.root, "_delta_log", name)

    def truncated_at(self, version: int) -> Log:
        """Return the log as it was at a version."""
        commits = {v: entry for v, entry in self.commits.items() if v <= version}
        return replace(
            self, commits=commits, checkpoints=tuple(c for c in self.checkpoints if c[0] <= version), latest=version
        )

    def actions(self, version: int) -> list[Action]:
        """Return the actions of a commit."""
        path = self.path(self.commits[version].name)
        return _commit_actions(
            self.catalog_commits[version] if version in self.catalog_commits else self.files.read(path), file=path
        )

    def bases(self, version: int) -> list[tuple[int, tuple[str, ...]]]:
        """Return the checkpoints that all commits up to a version follow, oldest first (delta L21 to L23).

        The base (-1, ()) starts at version 0 without a checkpoint.
        """
        return [
            (base, names)
            for base, names in [(-1, ()), *self.checkpoints]
            if base <= version and all(v in self.commits for v in range(max(base, 0), version + 1))
        ]

    def readable(self) -> list[int]:
        """Return the versions that can still be read, in ascending order (delta L29)."""
        starts = {0, *(base for base, _ in self.checkpoints)}
        versions: list[int] = []
        for version in (v for v, entry in sorted(self.commits.items()) if entry.size > 0):
            if version in starts or (versions and versions[-1] == version - 1):
                versions.append(version)
        return versions

    def load(self, version: int | None) -> ReplayedState:
        """Return the state of the table at a version. None means the latest version."""
        target = self.latest if version is None else version
        readable = self.readable()
        if not 0 <= target <= self.latest or (readable and target < readable[0]):
            raise errors.SnapshotNotFoundError(
                f"There is no version {target}", cause="VersionNotFound", rule="delta L32"
            )
        first: errors.HarnessError | None = None
        for base, names in self.bases(target):
            try:
                return self._replay(base, names, target)
            except (errors.InvalidTableError, errors.MissingFileError) as error:
                first = first or error  # a newer base may not need the broken file (delta L5, L19)
        if first is not None:
            raise first
        message = f"Commits up to version {target} are missing, and no checkpoint replaces them"
        raise errors.InvalidTableError(message, cause="LogGap" if readable else "LogTruncated", rule="delta L21")

    def _replay(self, base: int, names: tuple[str, ...], target: int) -> ReplayedState:
        state = ReplayedState(target)
        if names:
            apply_actions(
                state, self._checkpoint_actions([self.path(n) for n in names], base), self.root, self.path(names[0])
            )
            if len(names) > 1 and "v2checkpoint" in state.features("readerFeatures"):
                raise _corrupt_log("a table with v2Checkpoint has a checkpoint in parts", names[0], "delta L13")
        for version in range(base + 1, target + 1):
            apply_actions(state, self.actions(version), self.root, self.path(self.commits[version].name))
        if state.protocol is None or state.metadata is None:
            raise log_error(f"no protocol or no metaData up to version {target}", None, "delta L20")
        paths = [path for path, _ in state.adds]
        if len(set(paths)) < len(paths):
            raise log_error("a data file is live with two deletion vectors", None, "delta R3")
        for (path, _), add in state.adds.items():
            if add["size"] < 0:
                raise log_error(f"a file has {add['size']} bytes", path, "delta R13")
        return state

    def _checkpoint_actions(self, paths: Sequence[str], version: int) -> list[Action]:
        """Return the actions of a checkpoint and its sidecars, without tombstones (delta L14 to L19)."""
        top = paths[0]
        actions = [action for path in paths for action in self._file_actions(path)]
        bodies = {kind: [body for name, body in actions if name == kind] for kind in ("sidecar", "checkpointMetadata")}
        sidecars, heads = bodies["sidecar"], bodies["checkpointMetadata"]
        is_named = top.count(".") == 3 and ".checkpoint.parquet" not in top.rsplit("/", 1)[-1]
        if len(heads) > 1 or ((is_named or sidecars) and not heads):
            raise log_error(f"the checkpoint has {len(heads)} checkpointMetadata", top, "delta L14")
        if heads and heads[0].get("version") != version:
            raise log_error(f"its checkpointMetadata has version {heads[0].get('version')}", top, "delta L14")
        if sidecars and any(name in ("add", "remove") for name, _ in actions):
            raise log_error("the checkpoint has both file actions and sidecars", top, "delta L16")
        log = top.rpartition("/")[0]
        listing = []
        for sidecar in sidecars:
            is_bare = not {"/", ":"} & set(sidecar["path"])
            listing.append(canonical_path(sidecar["path"], f"{log}/_sidecars" if is_bare else log))
            if len(self.files.read(listing[-1])) < (sidecar.get("sizeInBytes") or 0):
                raise _corrupt_log("a sidecar is cut short", listing[-1], "delta L15")
            actions += [action for action in self._file_actions(listing[-1]) if action[0] in ("add", "remove")]
        if not any(
            p.endswith(".json") or "add" in pq.read_schema(io.BytesIO(self.files.read(p))).names
            for p in listing or paths
        ):
            raise _corrupt_log("the checkpoint has no column add", top, "delta L17")
        self._check_counts(actions, top, version, is_v2=bool(heads))
        removed = {(body["path"], str(body.get("deletionVector"))) for name, body in actions if name == "remove"}
        if any(name == "add" and (body["path"], str(body.get("deletionVector"))) in removed for name, body in actions):
            raise log_error("the checkpoint adds and removes a file", top, "delta L18")
        return [action for action in actions if action[0] in ("add", "protocol", "metaData")]

    def _file_actions(self, path: str) -> list[Action]:
        """Return the actions of one file of a checkpoint."""
        if path.endswith(".json"):
            return _commit_actions(self.files.read(path), file=path)
        column_names = [f"{name}.{field}" for name, fields in _COLUMNS.items() for field in fields]
        try:
            parquet = pq.ParquetFile(io.BytesIO(self.files.read(path)))
            others = [name for name in parquet.schema_arrow.names if name not in _COLUMNS]
            rows = parquet.read(columns=column_names + others).to_pylist()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _corrupt_log(f"the checkpoint is damaged: {error}", path, "delta L19") from error
        if len(rows) != parquet.metadata.num_rows or any(all(body is None for body in row.values()) for row in rows):
            raise _corrupt_log("a row of the checkpoint holds no action", path, "delta L17")
        actions_by_row = [
            {name: body for name, body in row.items() if name in _COLUMNS and body is not None} for row in rows
        ]
        if any(len(row) > 1 for row in actions_by_row):
            raise _corrupt_log("a row of the checkpoint holds several actions", path, "delta L17")
        for body in (body for row in actions_by_row for body in row.values()):
            for key in _MAPS:  # pyarrow returns maps as pairs
                if body.get(key) is not None:
                    body[key] = dict(body[key])
            vector = body.get("deletionVector")
            if vector is not None and all(value is None for value in vector.values()):
                body["deletionVector"] = None  # some writers of Parquet store a null struct in this way
        return [action for row in actions_by_row for action in _parse_action(row, path)]

    def _check_counts(self, actions: list[Action], top: str, version: int, *, is_v2: bool) -> None:
        """Compare the checkpoint with a valid `_last_checkpoint` that describes it (delta L6 to L10)."""
        try:
            text = self.files.read(f"{top.rpartition('/')[0]}/_last_checkpoint").decode()
            hint = json.loads(text, object_pairs_hook=_unique_keys)
            if hint["version"] != version or hint.get("checksum") not in (None, hint_checksum(text)):
                return
        except (errors.MissingFileError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return
        count, size = hint.get("numOfAddFiles"), hint.get("size")
        adds = sum(name == "add" for name, _ in actions)
        if type(count) is int and count >= 0:
            is_right = count == adds
        else:
            is_right = type(size) is not int or size < 0 or is_v2 or size == len(actions)
        if not is_right:
            reason = f"_last_checkpoint says {count} files, {size} actions; found {adds}, {len(actions)}"
            raise _corrupt_log(reason, top, "delta L10")


def list_log(root: str, files: Files) -> Log:
    """Return the log of the table in directory `root`. Raise TableNotFoundError if the log is empty (delta L4)."""
    entries = files.entries(join(root, "_delta_log"))
    commits = {int(match[1]): entry for entry in entries if (match := _COMMIT.fullmatch(entry.name))}
    whole = [e.name for e in entries if e.size != 0]
    single = [(int(match[1]), (name,)) for name in whole if (match := _CHECKPOINT.fullmatch(name))]
    checkpoints = [*single, *_multi_part_checkpoints(whole)]
    ends = [int(match[2]) for name in whole if (match := _COMPACTED.fullmatch(name)) and match[2] > match[1]]
    versions = [*commits, *(version for version, _ in checkpoints), *ends]
    if not versions:
        raise errors.TableNotFoundError(
            "There is no Delta table: no commit and no checkpoint", table=root, rule="delta L4"
        )
    return Log(root, commits, tuple(sorted(checkpoints)), max(versions), files)


def _multi_part_checkpoints(names: list[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the multi-part checkpoints whose parts all exist (delta L12)."""
    matches = [match for name in names if (match := _PART.fullmatch(name))]
    for version, count in sorted({(match[1], match[3]) for match in matches}):
        parts = {int(match[2]): match[0] for match in matches if (match[1], match[3]) == (version, count)}
        numbers = range(1, int(count) + 1)
        if numbers and all(number in parts for number in numbers):
            yield int(version), tuple(parts[number] for number in numbers)


@dataclass
class ReplayedState:
    """A table at one version: live `add` actions by path and deletion vector, the protocol, and the metadata."""

    version: int
    protocol: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    adds: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    @property
    def configuration(self) -> Mapping[str, Any]:
        """The table properties."""
        return (self.metadata or {}).get("configuration") or {}

    def features(self, *lists: str) -> set[str]:
        """Return the lower-case names of the features in these lists of the protocol."""
        return {name.lower() for key in lists for name in (self.protocol or {}).get(key) or ()}


def apply_actions(state: ReplayedState, actions: list[Action], root: str, file: str) -> None:
    """Apply the actions of one file of the log to a state. Their order does not matter (delta L26, R1 to R6)."""
    kinds: dict[tuple[str, str], str] = {}
    for kind in ("protocol", "metaData"):
        if sum(name == kind for name, _ in actions) > 1:
            raise log_error(f"a file has two {kind} actions", file, "delta L25")
    state.protocol = next((body for name, body in actions if name == "protocol"), state.protocol)
    state.metadata = next((body for name, body in actions if name == "metaData"), state.metadata)
    for kind, body in actions:
        if kind in ("add", "remove"):
            key = (canonical_path(body["path"], root), vector_id(body.get("deletionVector")))
            if key in kinds and "add" in (kind, kinds[key]):
                raise log_error(f"a commit adds {key[0]} twice, or adds and removes it", file, "delta L25")
            kinds[key] = kind
            state.adds.pop(key, None)
            if kind == "add":
                state.adds[key] = body


def vector_id(vector: Mapping[str, object] | None) -> str:
    """Return the identity of a deletion vector, or an empty text if there is none (delta R1)."""
    if vector is None:
        return ""
    offset = vector.get("offset")
    return f"{vector['storageType']}{vector['pathOrInlineDv']}" + ("" if offset is None else f"@{offset}")
