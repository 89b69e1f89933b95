"""The history of an Iceberg scenario, which executes the operations in order with the builder.

    history = IcebergHistory(tmp_path, {"schema": {"id": "long", "name": "string"}})
    history.apply({"append": [{"data": "a", "rows": [[1, "x"], [2, "y"]]}]})
    history.apply({"commit": {"add": [{"position-deletes": [["a", 0]]}], "as": "deleted"}})

`OPERATIONS` lists all operations. `compact` commits the operation `replace`; `overwrite` removes all live files. The
`sequence-number` of added data files may be a number, or the label of the commit whose number they keep. `stage` moves
no branch. `writes` describes FILES, and `edits` describes unusual and broken tables. Table keys: schema {name: type
text}, format-version, partition-spec, properties, recorded-location, metadata-names, metadata-codec, folder.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.errors import RequestError
from harness.metadata.model.schema import METADATA, SNAPSHOT_CHANGES, Field, Schema, StructType, UnknownType
from harness.suite.scenarios.arguments import Arguments, checked, look_up, take_all
from harness.suite.scenarios.iceberg import edits
from harness.suite.scenarios.iceberg.writes import IcebergWrites
from harness.suite.scenarios.model import (
    COLUMN_OPERATIONS,
    Operation,
    ResolvedSelector,
    ScenarioHistory,
    builder_operation,
)
from harness.suite.scenarios.values import parse_value, with_names
from harness.writing.iceberg.builder import IcebergFile, IcebergTable
from harness.writing.iceberg.types import parse_type, with_fresh_ids
from harness.writing.local_files import check_inside

_CREATE = (
    ("format-version", int),
    ("properties", dict),
    ("recorded-location", str),
    ("metadata-names", str),
    ("metadata-codec", str),
)
_COMMIT = (
    ("operation", str),
    ("branch", str),
    ("manifests", str),
    ("summary", dict),
    ("timestamp-ms", int),
    ("snapshot-id", int),
)
_METADATA = ("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number")


class IcebergHistory(ScenarioHistory):
    """An Iceberg table under construction."""

    format = "iceberg"
    point = "snapshot_id"
    table: IcebergTable
    writes: IcebergWrites

    def __init__(self, directory: Path, table: Mapping[str, object]) -> None:
        """Create the table without a snapshot in a folder of `directory`.

        Args:
            directory: The directory.
            table: The key `schema`, the arguments of `IcebergTable.create` in kebab case, and `folder`, the folder's
                name.

        Raises:
            RequestError: A key is unknown or a value has the wrong type.
        """
        arguments = Arguments(table, "table")
        self.directory = directory
        folder, schema = arguments.typed(str, "folder", "table"), arguments.typed(dict, "schema")
        options: dict[str, Any] = {
            n.replace("-", "_"): arguments.typed(kind, n) for n, kind in _CREATE if arguments.has(n)
        }
        spec = _spec(arguments.typed(list, "partition-spec", []), "table, key 'partition-spec'")
        arguments.finish()
        self.table = IcebergTable.create(
            check_inside(directory, directory / folder), schema, partition_spec=spec, **options
        )
        self.table.store.allowed_directory = directory
        self.writes = IcebergWrites(self.table)
        self.commits: dict[str, int] = {}

    @property
    def location(self) -> Path:
        """The current directory of the table."""
        return self.table.store.directory

    @property
    def metadata_path(self) -> Path | None:
        """The current metadata file: the newest, unless the version hint names another one."""
        hint = self.location / "metadata" / "version-hint.text"
        hinted = hint.with_name(f"{hint.read_text().strip()}.metadata.json" if hint.is_file() else "none")
        return hinted if hinted.is_file() else self.table.metadata_path

    def time_of(self, commit: int) -> int:
        """Return the time that a snapshot records, in milliseconds since 1970 UTC."""
        return int(self.table.document.snapshot(commit)["timestamp-ms"])

    def opening(self, catalog: Mapping[str, object] | str | None) -> Mapping[str, Any]:
        """Return no arguments, because an Iceberg catalog only knows the metadata file."""
        if catalog is not None:
            raise RequestError("Invalid 'catalog': only Delta tables have it")
        return {}

    def schema_at(self, selector: ResolvedSelector) -> Schema:
        """Return the schema of a read at the selector: the schema of the snapshot, or for a branch the table's.

        Reads of changes have the schema of their end, and the columns of changes.

        Spec: Iceberg, "Point in Time Reads (Time Travel)".
        """
        document = self.table.document
        snapshot_id, ref = selector.snapshot_id, selector.ref
        if selector.changes is not None:
            to = selector.changes.to
            snapshot_id, ref = (None, to) if isinstance(to, str) else (to, None)
        refs = document.doc.get("refs", {})
        if ref is not None and refs.get(ref, {}).get("type") == "tag":
            snapshot_id = refs[ref]["snapshot-id"]
        if selector.timestamp_ms is not None:
            log = [e for e in document.doc.get("snapshot-log", []) if e["timestamp-ms"] <= selector.timestamp_ms]
            snapshot_id = max(log, key=lambda e: e["timestamp-ms"])["snapshot-id"] if log else None
        snapshots = {s["snapshot-id"]: s for s in document.doc.get("snapshots", [])}
        schema_id = snapshots.get(snapshot_id, {}).get("schema-id", document.doc.get("current-schema-id"))
        schema = next((s for s in document.schemas if s.id == schema_id), document.schemas[-1])
        if selector.changes is None:
            return schema
        return replace(schema, fields=(*schema.fields, *SNAPSHOT_CHANGES.values()))

    def metadata_field(self, name: str) -> Field | None:
        """Return a metadata column with its type in this table, or None if it is unknown."""
        if name not in _METADATA:
            return None
        if name != "_partition":
            return METADATA[name]
        document = self.table.document
        fields = {f.id: f for spec in document.specs for f in document.partition_fields(spec)}
        struct = StructType(tuple(fields[i] for i in sorted(fields)))
        return replace(METADATA[name], type=struct if fields else UnknownType())

    def _overwrite(self, value: object, place: str) -> None:
        """Remove the files of the current snapshot."""
        manifests = () if self.table.snapshot_id is None else self.table.manifests().values()
        entries = (e for m in manifests for e in m.records if e["status"] != 2)
        live = {(e["data_file"]["file_path"], e["data_file"].get("content_offset")) for e in entries}
        live_files = tuple(dict.fromkeys(h for h in self.writes.written if h.key in live))
        self._commit({"operation": "overwrite", **_as_commit(value, place)}, place, live_files)

    def _commit(self, value: object, place: str, replaced_files: tuple[IcebergFile, ...] = ()) -> None:
        arguments = Arguments(value, place)
        label = arguments.typed(str, "as", None)
        options: dict[str, Any] = {
            n.replace("-", "_"): arguments.typed(kind, n) for n, kind in _COMMIT if arguments.has(n)
        }
        if arguments.typed(bool, "stage", False):
            options["branch"] = None
        if arguments.has("sequence-number"):
            number = arguments.any("sequence-number")
            if isinstance(number, str):
                commit = self.table.document.snapshot(look_up(self.commits, number, "commit", place))
                number = int(commit.get("sequence-number", 0))
            options["sequence_number"] = checked(int, number, f"{place}, key 'sequence-number'")
        removed = [look_up(self.files, name, "file", place) for name in arguments.texts("remove", [])]
        files = arguments.typed(list, "add", [])
        arguments.finish()
        added = [h for i, f in enumerate(files, 1) for h in self.writes.write(f, f"{place}, file {i}")]
        snapshot_id = self.table.commit(add=added, remove=[*removed, *replaced_files], **options)
        if label is not None:
            if label in self.commits:
                raise RequestError(f"Invalid label {label!r} in {place}: another commit has it")
            self.commits[label] = snapshot_id

    def _add_column(self, value: object, place: str) -> None:
        optional = (Any, None)
        name, text, parent, *defaults = take_all(
            value, place, name=str, type=str, parent=(str, None), initial_default=optional, write_default=optional
        )
        [field] = with_fresh_ids((Field(id=0, name=name, type=parse_type(text)[0]),), itertools.count())
        type_ = field.type  # its structs store values by field id
        initial, later = (with_names(type_, parse_value(type_, default)) for default in defaults)
        self.table.add_column(name, text, parent=parent, initial_default=initial, write_default=later)

    def _properties(self, changed: Mapping[str, Any]) -> None:
        self.table.set_properties(**changed)

    def _partition_spec(self, value: object, place: str) -> None:
        self.table.set_partition_spec(_spec(checked(list, value, place), place))

    def _ref(self, value: object, place: str, **kind: str) -> None:
        arguments = Arguments({**checked(dict, value, place), **kind}, place)
        name, kind_ = arguments.text("name"), arguments.choice("kind", ("branch", "tag"), "branch")
        at = look_up(self.commits, arguments.any("at"), "commit", place) if arguments.has("at") else None
        arguments.finish()
        self.table.set_ref(name, at, kind_)

    def _move_table(self, value: object, place: str) -> None:
        target = self._new_folder(value, place)
        store = self.table.store
        shutil.move(store.directory, target)
        store.metadata_path = target / store.metadata_path.relative_to(store.directory)
        store.directory = target


def _as_commit(value: object, place: str) -> dict[str, object]:
    """Return the mapping of `commit` for a list of files, or for a mapping with `files`."""
    if not isinstance(value, Mapping):
        return {"add": checked(list, value, place)}
    if "files" not in value:
        raise RequestError(f"Missing key 'files' in {place}")
    return {"add" if key == "files" else key: item for key, item in value.items()}


def _spec(entries: list[Any], place: str) -> list[Any]:
    """Return the entries of a partition spec in the form that the builder accepts."""
    spec = []
    for entry in entries:
        parts = [checked(str, part, place) for part in checked(list, entry, place)]
        if len(parts) not in (2, 3):
            raise RequestError(
                f"Invalid {parts!r} in {place}: expected [column, transform] or [column, transform, name]"
            )
        spec.append(tuple(parts))
    return spec


_FILES = "FILES, or {files: FILES, ...} with keys of commit"
OPERATIONS: Mapping[str, Operation] = {
    "append": Operation(_FILES, lambda h, value, place: h._commit(_as_commit(value, place), place)),
    "commit": Operation(
        "{add: FILES, remove: LABELS, as: LABEL, branch, stage, sequence-number, operation, manifests, summary, "
        "timestamp-ms, snapshot-id}",
        IcebergHistory._commit,
    ),
    "overwrite": Operation(_FILES, IcebergHistory._overwrite),
    "compact": Operation(
        "{files: FILES, remove: LABELS, ...} with keys of commit",
        lambda h, value, place: h._commit({"operation": "replace", **_as_commit(value, place)}, place),
    ),
    "remove": Operation("LABELS", lambda h, value, place: h._commit({"remove": checked(list, value, place)}, place)),
    "add-column": Operation("{name, type, parent, initial-default, write-default}", IcebergHistory._add_column),
    **COLUMN_OPERATIONS,
    "widen-column": builder_operation("{path, type}", "widen_column", path=str, type=str),
    "make-optional": builder_operation("PATH", "make_optional", str),
    "partition-spec": Operation("[[column, transform, name], ...]", IcebergHistory._partition_spec),
    "properties": Operation("{key: text}", lambda h, value, place: h._properties(checked(dict, value, place))),
    "name-mapping": Operation(
        "[{field-id, names, fields}, ...]",
        lambda h, value, place: h._properties({"schema.name-mapping.default": json.dumps(checked(list, value, place))}),
    ),
    "upgrade": builder_operation("format version", "upgrade", int),
    "tag": Operation("{name, at: LABEL}", lambda h, value, place: h._ref(value, place, kind="tag")),
    "branch": Operation("{name, at: LABEL}", lambda h, value, place: h._ref(value, place, kind="branch")),
    "set-ref": Operation("{name, at: LABEL, kind}", IcebergHistory._ref),
    "expire": Operation("LABEL", lambda h, value, place: h.table.expire(look_up(h.commits, value, "commit", place))),
    "move-table": Operation("FOLDER", IcebergHistory._move_table),
    "edit-metadata": Operation("{set, unset}", edits.edit_metadata),
    "edit-manifest-list": Operation("{of: LABEL, set, unset, ...}", edits.edit_manifest_list),
    "edit-manifest": Operation("{of: FILE, set, unset, entry, ...}", edits.edit_manifest),
    "break": Operation("{delete: TARGET}, ...", edits.damage),
}
IcebergHistory.operations = OPERATIONS
