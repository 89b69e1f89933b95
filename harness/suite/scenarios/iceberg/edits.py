"""Edits of an Iceberg table beyond its operations: documents by pointer, unusual Avro schemas, damaged files.

    edit-metadata: {set: {properties/a: b, snapshots/0/summary: {...}}, unset: [last-updated-ms]}
    edit-manifest-list: {of: COMMIT, set: {records/0/manifest_length: 1}, unset, CHANGES}   default: the current list
    edit-manifest: {of: FILE, set: {records/0/status: 1}, unset, entry: {...}, CHANGES}     manifests with that file
    break: {delete: TARGET}, ...                             see `damage` in `harness.suite.scenarios.edits`

`harness.suite.scenarios.edits` describes pointers. In a manifest or manifest list, a pointer leads into `records`,
`schema`, `header` or `codec`. `entry` sets values in the entry of the file: {status: 0, data_file/record_count: 5}. A
value {bytes: hex} represents bytes. CHANGES: codec: NAME; drop-fields: [name] (in the Avro schema, at any level);
rename-fields: {name: other}; drop-ids: [name] or all; header: {key: text or null}.

All raise RequestError if a pointer does not lead to a value, or if a commit or file is unknown.

TARGET: the label of a file; `metadata`, `version hint`, `manifest list`, `manifest list of COMMIT`, `manifest of FILE`;
or a path below the table's directory.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from harness.errors import RequestError
from harness.suite.scenarios import edits
from harness.suite.scenarios.arguments import Arguments, checked, look_up
from harness.suite.scenarios.edits import edit
from harness.suite.scenarios.model import ScenarioHistory
from harness.suite.scenarios.values import replace_texts
from harness.writing.iceberg.avro import AvroDocument
from harness.writing.iceberg.builder import IcebergTable
from harness.writing.iceberg.commit import entry_key

_IDS = ("field-id", "element-id", "key-id", "value-id")


def edit_metadata(history: ScenarioHistory, value: object, place: str) -> None:
    """Set and remove values in the current metadata document. A text `{LABEL}` is the id of that commit."""
    arguments = Arguments(value, place)
    changes, removals = _fill_labels(arguments.typed(dict, "set", {}), history.commits), arguments.texts("unset", [])
    arguments.finish()
    history.table.edit_metadata(lambda doc: edit(doc, changes, removals, place))


def edit_manifest_list(history: ScenarioHistory, value: object, place: str) -> None:
    """Change the manifest list of a commit or of the current snapshot."""
    arguments = Arguments(value, place)
    snapshot = look_up(history.commits, arguments.any("of"), "commit", place) if arguments.has("of") else None
    history.table.edit_manifest_list(_change(arguments), snapshot)


def edit_manifest(history: ScenarioHistory, value: object, place: str) -> None:
    """Change the manifests of the current snapshot that list a file.

    Raises:
        RequestError: No manifest lists the file.
    """
    arguments = Arguments(value, place)
    handle = look_up(history.files, arguments.any("of"), "file", place)
    in_entry = _parse_bytes(arguments.typed(dict, "entry", {}))
    change, touched = _change(arguments), []

    def apply(document: AvroDocument) -> None:
        touched.append(document)
        for record in document.records:
            if entry_key(record) == handle.key:
                edit(record, in_entry, (), place)
        change(document)

    history.table.edit_manifest(handle, apply)
    if not touched:
        raise RequestError(f"Invalid {place}: no manifest of the current snapshot lists {handle.path}")


def damage(history: ScenarioHistory, value: object, place: str) -> None:
    """Damage a file of the table as specified by `break`.

    Raises:
        RequestError: As for `harness.suite.scenarios.edits.damage`.
    """
    store = history.table.store
    within = store.directory if store.allowed_directory is None else store.allowed_directory
    edits.damage(Arguments(value, place), store.directory, within, lambda text: [_target(history, text, place)])


def _change(arguments: Arguments) -> Callable[[AvroDocument], None]:
    """Return a function that edits an Avro document in place."""
    place = arguments.place
    values, unset = _parse_bytes(arguments.typed(dict, "set", {})), arguments.texts("unset", [])
    drop = arguments.texts("drop-fields", [])
    rename: dict[str, str] = arguments.typed(dict, "rename-fields", {})
    ids = arguments.any("drop-ids", [])
    header: dict[str, object] = arguments.typed(dict, "header", {})
    codec = arguments.typed(str, "codec", None)
    arguments.finish()

    def apply(document: AvroDocument) -> None:
        whole: dict[str, Any] = {
            "records": document.records,
            "schema": copy.deepcopy(document.schema),
            "header": document.header,
            "codec": document.codec if codec is None else codec,
        }
        edit(whole, values, unset, place)
        field_names: set[str] = set()
        _reshape(whole["schema"], drop, rename, ids, field_names)
        unknown = ({*drop, *rename} | ({*ids} if ids != "all" else set())) - field_names
        if unknown:
            raise RequestError(f"No Avro field {', '.join(sorted(unknown))} in {place}")
        document.records = [_renamed(record, rename) for record in whole["records"]]
        document.schema, document.codec = whole["schema"], whole["codec"]
        for key, text in header.items():
            document.header.pop(key, None)
            if text is not None:
                document.header[key] = checked(str, text, f"{place}, header {key!r}")

    return apply


def _target(history: ScenarioHistory, text: str, place: str) -> Path:
    table: IcebergTable = history.table
    files = history.files
    match text.rpartition(" of "):
        case _ if text in files:
            return table.file_of(files[text].path)
        case ("", "", "metadata"):
            return table.metadata_path
        case ("", "", "version hint"):
            return table.store.directory / "metadata" / "version-hint.text"
        case ("", "", "manifest list"):
            return table.file_of(str(table.document.snapshot(table.snapshot_id or -1)["manifest-list"]))
        case ("manifest list", _, label):
            snapshot = table.document.snapshot(look_up(history.commits, label, "commit", place))
            return table.file_of(str(snapshot["manifest-list"]))
        case ("manifest", _, label):
            key = look_up(files, label, "file", place).key
            for path, document in table.manifests().items():
                if any(entry_key(entry) == key for entry in document.records):
                    return table.file_of(path)
        case _:
            pass
    file = table.store.directory / text
    if not file.is_file():
        raise RequestError(
            f"No file {text!r} in {place}: expected a label ({', '.join(files)}), a target like `metadata`, or a path"
        )
    return file


def _parse_bytes(value: object) -> Any:
    """Return the value with each {bytes: hex} replaced by bytes."""

    def change(part: Any) -> Any:
        is_bytes = isinstance(part, Mapping) and part.keys() == {"bytes"} and isinstance(part["bytes"], str)
        return bytes.fromhex(part["bytes"]) if is_bytes else part

    return replace_texts(value, change)


def _fill_labels(value: object, commits: Mapping[str, int]) -> Any:
    """Return the value with each text `{LABEL}` replaced by the id of that commit."""

    def change(part: Any) -> Any:
        is_label = isinstance(part, str) and part[:1] == "{" and part[-1:] == "}"
        return commits.get(part[1:-1], part) if is_label else part

    return replace_texts(value, change)


def _reshape(schema: Any, drop: Collection[str], rename: Mapping[str, str], ids: Any, field_names: set[str]) -> None:
    """Drop and rename fields of an Avro schema and remove ids, in place, at every level."""
    match schema:
        case {"fields": fields}:
            field_names.update(f["name"] for f in fields)
            schema["fields"] = [f for f in fields if f["name"] not in drop]
            for f in schema["fields"]:
                _reshape(f["type"], drop, rename, ids, field_names)
                if ids == "all" or f["name"] in ids:
                    for key in _IDS:
                        f.pop(key, None)
                f["name"] = rename.get(f["name"], f["name"])
        case {"items": items}:
            if ids == "all":
                schema.pop("element-id", None)
            _reshape(items, drop, rename, ids, field_names)
        case list():
            for branch in schema:
                _reshape(branch, drop, rename, ids, field_names)
        case _:
            pass


def _renamed(record: object, names: Mapping[str, str]) -> Any:
    match record:
        case dict():
            return {names.get(key, key): _renamed(value, names) for key, value in record.items()}
        case list():
            return [_renamed(item, names) for item in record]
        case _:
            return record
