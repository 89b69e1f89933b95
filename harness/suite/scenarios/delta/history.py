"""The history of a Delta scenario, which executes the operations in order with the builder.

    history = DeltaHistory(tmp_path, {"schema": {"id": "long", "name": "string"}})
    history.apply({"append": [{"data": "a", "rows": [[1, "x"], [2, "y"]]}]})
    history.apply({"delete-rows": {"a": [0]}})

`OPERATIONS` lists all operations. `writes` describes FILES, `harness.suite.scenarios.edits` describes `set`, `unset`
and `break`, and `targets` the files that `break` accepts. A commit that is held is only known to the catalog.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import RequestError
from harness.metadata.model.schema import CHANGES, METADATA, Field, Schema, StructType, UnknownType
from harness.suite.scenarios.arguments import Arguments, checked, look_up, take_all
from harness.suite.scenarios.delta.writes import DeltaWrites
from harness.suite.scenarios.edits import damage, edit, edit_lines
from harness.suite.scenarios.model import (
    COLUMN_OPERATIONS,
    Operation,
    ResolvedSelector,
    ScenarioHistory,
    builder_operation,
)
from harness.writing.delta.builder import DeltaFile, DeltaTable
from harness.writing.delta.checkpoint import CheckpointOptions, hint_text
from harness.writing.delta.types import JsonObject
from harness.writing.local_files import check_inside, set_time


def _ratified_commit(
    commit: object, commits_by_version: Mapping[int, str | tuple[int, bytes]]
) -> str | tuple[int, bytes]:
    if isinstance(commit, str):
        return commit  # the name of a commit, which does not have to exist
    version = checked(int, commit, "'ratified'")
    if version not in commits_by_version:
        raise RequestError(f"Invalid 'ratified': version {version} was neither staged nor held")
    return commits_by_version[version]


_CREATE = (
    "partition-columns", "configuration", "column-mapping", "features", "protocol", "field-metadata", "timestamp",
    "in-commit-timestamp",
)  # fmt: skip
_COMMIT = (
    "version", "timestamp", "in-commit-timestamp", "operation", "parameters", "info", "data-change", "actions", "raw",
)  # fmt: skip
_METADATA = ("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_row_commit_version")


class DeltaHistory(ScenarioHistory):
    """A Delta table under construction."""

    format = "delta"
    point = "version"
    table: DeltaTable
    writes: DeltaWrites

    def __init__(self, directory: Path, table: Mapping[str, object]) -> None:
        """Create the table at version 0 in a folder of `directory`.

        Args:
            directory: The directory.
            table: The key `schema`, the arguments of `DeltaTable.create` in kebab case, and `folder`, the folder's
                name.

        Raises:
            RequestError: A key is unknown or a value has the wrong type.
        """
        arguments = Arguments(table, "table")
        self.directory = directory
        folder, schema = arguments.typed(str, "folder", "table"), arguments.typed(dict, "schema")
        options = {name.replace("-", "_"): arguments.any(name) for name in _CREATE if arguments.has(name)}
        arguments.finish()
        self.table = DeltaTable.create(check_inside(directory, directory / folder), schema, **options)
        self.table.allowed_directory = directory
        self.writes = DeltaWrites(self.table)
        self.commits: dict[str, int] = {}
        self.held: dict[int, bytes] = {}

    @property
    def location(self) -> Path:
        """The current directory of the table."""
        return self.table.directory

    @property
    def metadata_path(self) -> Path | None:
        """None, because a Delta table is identified by its directory."""
        return None

    def opening(self, catalog: Mapping[str, object] | str | None) -> Mapping[str, object]:
        """Return the arguments of `harness.open_table` for the catalog's answer."""
        if catalog is None:
            return {}
        if catalog == "published":
            return {"published_only": True}
        latest, ratified = take_all(catalog, "'catalog'", max_version=int, ratified=(list, []))
        held_commits = {version: (version, content) for version, content in self.held.items()}
        commits_by_version: dict[int, str | tuple[int, bytes]] = {**self.table.log.staged, **held_commits}
        return {
            "max_version": latest,
            "ratified": tuple(_ratified_commit(each, commits_by_version) for each in ratified),
        }

    def schema_at(self, selector: ResolvedSelector) -> Schema:
        """Return the schema of a read at the selector. Reads of changes also have the columns of the feed."""
        if selector.changes is not None:
            last = self.table.version if selector.changes.to is None else int(selector.changes.to)
            schema = self.writes.schema_at(min(last, self.table.version))
            return replace(schema, fields=(*schema.fields, *CHANGES.values()))
        version = self.table.version if selector.version is None else selector.version
        if selector.timestamp_ms is not None:
            version = max((v for v in self.table.log.commits if self.time_of(v) <= selector.timestamp_ms), default=0)
        return self.writes.schema_at(version)

    def metadata_field(self, name: str) -> Field | None:
        """Return a metadata column with its type in this table, or None if it is unknown."""
        if name not in _METADATA:
            return None
        partition = tuple(replace(f, physical_name=None) for f in self.table.partition_fields)
        if name == "_partition":
            return replace(METADATA[name], type=StructType(partition) if partition else UnknownType())
        return METADATA[name]

    def _overwrite(self, value: object, place: str) -> str | None:
        live = {id(h) for h in self.table.live_files}
        live_labels = [label for label, handle in self.files.items() if id(handle) in live]
        return self._commit({**_with_files_key(value, "add"), "remove": live_labels}, place)

    def _delete_rows(self, value: object, place: str) -> str | None:
        delete_options, rest = value, {}
        if isinstance(value, Mapping) and "rows" in value:
            delete_options = {k: v for k, v in value.items() if k in ("rows", "storage", "prefix", "format", "set")}
            rest = {k: v for k, v in value.items() if k not in delete_options}
        return self._commit({"operation": "DELETE", **rest, "delete-rows": delete_options}, place)

    def _commit(self, value: object, place: str) -> str | None:
        arguments = Arguments(value, place)
        label: str | None = arguments.typed(str, "as", None)
        options = {name.replace("-", "_"): arguments.any(name) for name in _COMMIT if arguments.has(name)}
        actions = list(options.pop("actions", []))
        removed = [self.writes.removed_file(s, place) for s in arguments.typed(list, "remove", [])]
        added: list[DeltaFile] = []
        if arguments.has("delete-rows"):
            before, added, upgrade = self._mark_deleted(arguments.any("delete-rows"), place)
            removed, actions = [*removed, *before], [*upgrade, *actions]
        added += [self.writes.added_file(s, place) for s in arguments.typed(list, "add", [])]
        changes = [self.writes.added_file(s, place) for s in arguments.typed(list, "changes", [])]
        arguments.finish()
        for name in ("raw", "info", "parameters"):
            if name in options:
                options[name] = self.writes.fill_placeholders(options[name], place)
        self.table.commit(
            self.writes.fill_placeholders(actions, place), add=added, remove=removed, cdc=changes, **options
        )
        return label

    def _mark_deleted(self, value: object, place: str) -> tuple[list[DeltaFile], list[DeltaFile], list[JsonObject]]:
        """Return the files before and after the deletion of rows, and the new protocol if one is needed."""
        delete_options = value if isinstance(value, Mapping) and "rows" in value else {"rows": value}
        arguments = Arguments(delete_options, f"{place}, delete-rows")
        rows = arguments.typed(dict, "rows")
        handles = {look_up(self.files, label, "file", place): dead for label, dead in rows.items()}
        options = {name: arguments.any(name) for name in ("storage", "prefix", "format") if arguments.has(name)}
        changed = arguments.typed(dict, "set", {})
        arguments.finish()
        dead = {h: h.positions | _positions(p, place) for h, p in handles.items()}
        before = [replace(h) for h in handles]
        for handle, vector in self.table.write_vectors(dead, **options).items():
            edit(vector, self.writes.fill_placeholders(changed, place), (), place)
            handle.set_deletion_vector(vector, dead[handle])
        document = self.table.document
        return before, list(handles), [{"protocol": document.protocol}] if document.require(["deletionVectors"]) else []

    def _add_column(self, value: object, place: str) -> str | None:
        kinds = {"as": (str, None), "name": str, "type": Any, "parent": (str, None), "metadata": (dict, {})}
        label, name, type_, parent, metadata = take_all(value, place, **kinds)
        self.table.add_column(name, type_, parent=parent, metadata=metadata)
        return None if label is None else str(label)

    def _widen_column(self, value: object, place: str) -> None:
        path, type_, annotation = take_all(value, place, path=str, type=str, annotation=(dict, None))
        self.table.widen_column(path, type_, annotation=annotation)

    def _column_mapping(self, value: object, place: str) -> None:
        if value not in ("name", "id"):
            raise RequestError(f"Invalid {place}: expected name or id, got {value!r}")
        self.table.set_column_mapping(value)

    def _checkpoint(self, value: object, place: str) -> None:
        arguments = Arguments({} if value is None else {"kind": value} if isinstance(value, str) else value, place)
        names = [f.name for f in dataclass_fields(CheckpointOptions)]
        kebab = [(name, name.replace("_", "-")) for name in ("version", "hint", *names)]
        options = {name: arguments.any(key) for name, key in kebab if arguments.has(key)}
        arguments.finish()
        self.table.checkpoint(**options)

    def _compact(self, value: object, place: str) -> None:
        first, last = checked(list, value, place)
        self.table.compact(checked(int, first, place), checked(int, last, place))

    def _checksum(self, value: object, place: str) -> None:
        version, changed = take_all(_with_version_key(value), place, version=(int, None), set=(dict, {}))
        self.table.write_checksum(version, **changed)

    def _stage(self, value: object, place: str) -> None:
        version, published = take_all(_with_version_key(value), place, version=int, published=(bool, False))
        self.table.log.stage(self._check_version(version, place), published=published)

    def _hold(self, value: object, place: str) -> None:
        version = self._check_version(checked(int, value, place), place)
        self.held[version] = self.table.log.remove_commit_file(version)

    def _vacuum(self, value: object, place: str) -> None:
        if value is not None:
            raise RequestError(f"Invalid {place}: expected null, got {value!r}")
        self.table.vacuum()

    def _times(self, value: object, place: str) -> None:
        for version, time_ms in checked(dict, value, place).items():
            number, moment = checked(int, version, place), checked(int, time_ms, place)
            set_time(self.table.log.commit_path(number), moment)
            self.table.log.times[number] = moment

    def _edit_commit(self, value: object, place: str) -> None:
        version, changed, unset = self._edits(value, place)
        self.table.edit_commit(
            self._check_version(version, place), lambda actions: edit(actions, changed, unset, place)
        )

    def _edit_checkpoint(self, value: object, place: str) -> None:
        version, changed, unset = self._edits(value, place)
        for path in targets(f"_delta_log/{version:020d}.checkpoint.*.json", self.location, {}, place):
            edit_lines(path, changed, unset, place)

    def _edits(self, value: object, place: str) -> tuple[int, dict[str, Any], list[str]]:
        """Return a version and its values to set and to unset."""
        arguments = Arguments(value, place)
        version, changed, unset = (
            arguments.integer("version"),
            arguments.typed(dict, "set", {}),
            arguments.texts("unset", []),
        )
        arguments.finish()
        return version, self.writes.fill_placeholders(changed, place), unset

    def _check_version(self, version: int, place: str) -> int:
        if version not in self.table.log.commits:
            raise RequestError(f"Invalid {place}: there is no version {version}")
        return version

    def _edit_last_checkpoint(self, value: object, place: str) -> None:
        arguments = Arguments(value, place)
        changed, unset = arguments.typed(dict, "set", {}), arguments.texts("unset", [])
        fresh = arguments.choice("checksum", ("new", "old"), "old") == "new"
        arguments.finish()
        self.table.edit_last_checkpoint(lambda hint: edit(hint, changed, unset, place))
        if fresh:
            self.table.write_last_checkpoint(hint_text(self.table.log.hint()))

    def _break(self, value: object, place: str) -> None:
        labels = {label: handle.file for label, handle in self.files.items()}
        find_targets = partial(targets, root=self.location, labels=labels, place=place)
        damage(Arguments(value, place), self.location, self.directory, find_targets)

    def time_of(self, version: int) -> int:
        """Return the time of a version: its in-commit timestamp, otherwise its file time (delta L33, L35)."""
        info: JsonObject = next((a["commitInfo"] for a in self.table.actions(version) if "commitInfo" in a), {})
        moment: int = info.get("inCommitTimestamp", self.table.log.commit_time(version))
        return moment


def targets(text: str, root: Path, labels: Mapping[str, Path], place: str) -> list[Path]:
    """Return the files of a TARGET.

    It is a label of a data file, `commit 3`, `checkpoint 3` (all its files), `sidecars`, `compaction 1 3`, `checksum
    3`, `last checkpoint`, `vectors`, or a pattern of paths below the table's directory.

    Raises:
        RequestError: The target matches no file.
    """
    if text in labels:
        return [labels[text]]
    word, *numbers = text.split(" ")
    digits = [f"{int(n):020d}" for n in numbers if n.isdigit()]
    match word, digits:
        case "commit", [version]:
            pattern = f"_delta_log/{version}.json"
        case "checkpoint", [version]:
            pattern = f"_delta_log/{version}.checkpoint*"
        case "compaction", [first, last]:
            pattern = f"_delta_log/{first}.{last}.compacted.json"
        case "checksum", [version]:
            pattern = f"_delta_log/{version}.crc"
        case "sidecars", []:
            pattern = "_delta_log/_sidecars/*"
        case "last", []:
            pattern = "_delta_log/_last_checkpoint"
        case "vectors", []:
            pattern = "**/deletion_vector_*.bin"
        case _:
            pattern = text
    files = sorted(p for p in root.glob(pattern) if p.is_file())
    if not files:
        names = ", ".join(labels) or "none"
        raise RequestError(
            f"No file {text!r} in {place}: expected a label ({names}), a target like `commit 3`, or a pattern"
        )
    return files


def _positions(value: object, place: str) -> frozenset[int]:
    """Return positions of rows from a list or from `{ranges: [[first, last], ...]}`, both inclusive."""
    if not isinstance(value, Mapping):
        return frozenset(checked(int, p, place) for p in checked(list, value, place))
    (ranges,) = take_all(value, place, ranges=list)
    pairs = [checked(list, pair, place) for pair in ranges]
    return frozenset(p for first, last in pairs for p in range(first, last + 1))


def _with_files_key(value: object, name: str) -> dict[str, object]:
    """Return the mapping of `commit` for a list of files, or for a mapping with `files`."""
    if isinstance(value, list):
        return {name: value}
    if not isinstance(value, Mapping) or "files" not in value:
        raise RequestError(f"Invalid {value!r}: expected a list, or a mapping with 'files'")
    return {name if k == "files" else k: v for k, v in value.items()}


def _with_version_key(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {"version": value}


_MORE = "as: LABEL, version, timestamp, in-commit-timestamp, operation, parameters, info, data-change"
_FILES = f"FILES, or {{files: FILES, {_MORE}}}"
OPERATIONS: Mapping[str, Operation] = {
    "append": Operation(_FILES, lambda h, value, place: h._commit(_with_files_key(value, "add"), place)),
    "overwrite": Operation(_FILES, DeltaHistory._overwrite),
    "remove": Operation(
        "LABELS, or {files: LABELS, ...} as append",
        lambda h, value, place: h._commit({"operation": "DELETE", **_with_files_key(value, "remove")}, place),
    ),
    "delete-rows": Operation(
        "{LABEL: [positions] or {ranges: [[first, last]]}}, or {rows: {...}, storage, prefix, format, set, ...}",
        DeltaHistory._delete_rows,
    ),
    "commit": Operation(
        "{add: FILES, remove: FILES, changes: FILES, delete-rows: {...}, actions: [...], raw: [lines], ...}",
        DeltaHistory._commit,
    ),
    "add-column": Operation("{name, type, parent, metadata}", DeltaHistory._add_column),
    **COLUMN_OPERATIONS,
    "widen-column": Operation("{path, type, annotation}", DeltaHistory._widen_column),
    "column-mapping": Operation("name or id", DeltaHistory._column_mapping),
    "configuration": builder_operation("{key: text or null}", "set_configuration", dict),
    "protocol": builder_operation("{minReaderVersion, ...}", "set_protocol", dict),
    "checkpoint": Operation("KIND, or {kind, version, hint, parts, sidecars, ...}", DeltaHistory._checkpoint),
    "compact": Operation("[first, last]", DeltaHistory._compact),
    "checksum": Operation("VERSION, or {version, set}", DeltaHistory._checksum),
    "stage": Operation("VERSION, or {version, published: true}", DeltaHistory._stage),
    "hold": Operation("VERSION", DeltaHistory._hold),
    "vacuum": Operation("null", DeltaHistory._vacuum),
    "expire-log": builder_operation("VERSION, the first that remains", "expire_log", int),
    "move-table": Operation("FOLDER", lambda h, value, place: h.table.move(h._new_folder(value, place))),
    "times": Operation("{VERSION: ms}", DeltaHistory._times),
    "edit-commit": Operation("{version, set, unset}", DeltaHistory._edit_commit),
    "edit-checkpoint": Operation("{version, set, unset}", DeltaHistory._edit_checkpoint),
    "edit-last-checkpoint": Operation("{set, unset, checksum: new}", DeltaHistory._edit_last_checkpoint),
    "write-last-checkpoint": builder_operation("TEXT", "write_last_checkpoint", str),
    "break": Operation("{delete: TARGET}, ...", DeltaHistory._break),
}
DeltaHistory.operations = OPERATIONS
