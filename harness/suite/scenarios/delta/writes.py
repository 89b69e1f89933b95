"""The files that a Delta scenario writes, and their actions in commits.

    {data: a, rows: [[1, x], [2, y]], partition: {region: eu}, row-group-size: 1, statistics: none}
    {changes: c, rows: [[1, x]], change-type: delete}
    a                                            # an existing file
    {file: a, set: {tags: {k: v}}, unset: [deletionVector]}

`set` and `unset` edit the `add` action (or, in `remove`, the `remove` action) with pointers, see
`harness.suite.scenarios.edits`. In texts, `{table}` is the percent-encoded absolute path of the table, `{path a}` is
the path of file a in the log, and `{size a}` is its size.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from typing import Any

import pyarrow as pa

from harness.errors import RequestError
from harness.metadata.model.schema import Field, Schema
from harness.suite.scenarios.arguments import Arguments, look_up
from harness.suite.scenarios.edits import edit
from harness.suite.scenarios.values import expand_rows, natural_rows, parse_value, replace_texts
from harness.writing.delta.builder import DeltaFile, DeltaFileOptions, DeltaTable
from harness.writing.delta.types import JsonObject, schema_json, schema_of
from harness.writing.delta.values import encoded_path

_TRANSLATED = {"self", "rows", "partition", "schema", "extra", "path", "recorded", "more"}
_PLAIN_OPTIONS = {
    name.replace("_", "-")
    for name in (inspect.signature(DeltaTable.write_data).parameters.keys() - _TRANSLATED)
    | {f.name for f in dataclass_fields(DeltaFileOptions)}
}
"""Keys of a file that are passed to the builder unchanged."""
_PLACEHOLDER = re.compile(r"\{(table|(?P<what>path|size) (?P<label>[^{}]+))\}")


class DeltaWrites:
    """Writes the files of one table and keeps them by label."""

    def __init__(self, table: DeltaTable) -> None:
        self.table = table
        self.files: dict[str, DeltaFile] = {}

    def added_file(self, spec: object, place: str) -> DeltaFile:
        """Return a file to add: a new file or an existing one. An edit of an existing file stays in effect."""
        if isinstance(spec, str):
            return look_up(self.files, spec, "file", place)
        arguments = Arguments(spec, place)
        if not arguments.has("file"):
            return self._write_file(arguments)
        handle = look_up(self.files, arguments.text("file"), "file", place)
        handle.add = self._edit_action(handle.add, arguments)
        if "deletionVector" not in handle.add:
            handle.positions = frozenset()
        arguments.finish()
        return handle

    def removed_file(self, spec: object, place: str) -> DeltaFile | JsonObject:
        """Return a file to remove in its current state, or the content of an edited `remove` action."""
        if isinstance(spec, str):
            return replace(look_up(self.files, spec, "file", place))
        arguments = Arguments(spec, place)
        handle = look_up(self.files, arguments.text("file"), "file", place)
        action = {k: v for k, v in handle.add.items() if k in ("path", "partitionValues", "size", "deletionVector")}
        base = {"deletionTimestamp": self.table.log.commit_time(self.table.version + 1), "dataChange": True}
        edited = self._edit_action({**action, **base, "extendedFileMetadata": True}, arguments)
        arguments.finish()
        return edited

    def fill_placeholders(self, value: object, place: str) -> Any:
        """Return the value with its placeholders replaced, at every level."""

        def change(part: object) -> Any:
            return _PLACEHOLDER.sub(lambda m: self._placeholder(m, place), part) if isinstance(part, str) else part

        return replace_texts(value, change)

    def schema_at(self, version: int) -> Schema:
        """Return the schema at a version, as the builder reads its own commits."""
        metadata = self.table.log.state(version).metadata
        if metadata is None:
            raise RequestError(f"Version {version} of the table has no metaData and therefore no schema")
        document = json.loads(metadata["schemaString"])
        mapped = metadata.get("configuration", {}).get("delta.columnMapping.mode", "none") != "none"
        return schema_of(document, mapped=mapped)

    def _write_file(self, arguments: Arguments) -> DeltaFile:
        kind = "changes" if arguments.has("changes") else "data"
        label = arguments.text(kind)
        if label in self.files:
            raise RequestError(f"Invalid {arguments.place}: a file {label!r} already exists")
        schema = None  # the schema of the file: by names and types, or the schema of an older version
        if arguments.has("file-schema"):
            schema = schema_of(schema_json(arguments.typed(dict, "file-schema")), mapped=False)
        elif arguments.has("schema-at"):
            schema = self.schema_at(arguments.integer("schema-at"))
        options = self._options(arguments)
        if kind == "changes":
            options["change_type"] = arguments.any("change-type")
        if schema is not None:
            options["schema"] = schema
        columns = options.get("columns")
        rows = expand_rows(arguments.any("rows"), f"{arguments.place}, key 'rows'")
        row_fields = _row_fields(schema or self.table.schema, columns)
        natural = natural_rows(row_fields, rows)
        write: Callable[..., DeltaFile] = self.table.write_changes if kind == "changes" else self.table.write_data
        changed, unset = arguments.typed(dict, "set", {}), arguments.texts("unset", [])
        arguments.finish()
        handle = write(natural, **options)
        self.files[label] = handle
        edit(handle.add, self.fill_placeholders(changed, arguments.place), unset, arguments.place)
        return handle

    def _options(self, arguments: Arguments) -> dict[str, object]:
        options = {
            name.replace("-", "_"): arguments.any(name) for name in sorted(_PLAIN_OPTIONS) if arguments.has(name)
        }
        if arguments.has("partition"):
            types = {f.name: f.type for f in self.table.partition_fields}
            partition = arguments.typed(dict, "partition")
            options["partition"] = {n: parse_value(types[n], v) if n in types else v for n, v in partition.items()}
        if arguments.has("path"):
            options["path"] = path = arguments.text("path")
            if options.get("addressing", "relative") != "relative":  # an absolute path without `..`, as in clones
                options["path"] = os.path.normpath(self.table.directory.absolute() / path)
        if arguments.has("recorded"):
            options["recorded"] = self.fill_placeholders(arguments.text("recorded"), arguments.place)
        if arguments.has("extra"):
            extra = arguments.typed(dict, "extra")
            options["extra"] = {name: pa.array(values) for name, values in extra.items()}
        return options

    def _edit_action(self, action: JsonObject, arguments: Arguments) -> JsonObject:
        action = json.loads(json.dumps(action))
        edit(
            action,
            self.fill_placeholders(arguments.typed(dict, "set", {}), arguments.place),
            arguments.texts("unset", []),
            arguments.place,
        )
        return action

    def _placeholder(self, match: re.Match[str], place: str) -> str:
        if match["what"] is None:
            return encoded_path(str(self.table.directory.absolute()))
        handle = look_up(self.files, match["label"], "file", place)
        return str(handle.add["path" if match["what"] == "path" else "size"])


def _row_fields(schema: Schema, columns: Any) -> tuple[Field, ...]:
    """Return the columns, in order, whose values are in rows that are lists."""
    if columns is None:
        return schema.fields
    by_name = {f.name: f for f in schema.fields}
    unknown = [c for c in columns if c not in by_name]
    if unknown:
        raise RequestError(f"Unknown column {unknown[0]!r}: the columns are {', '.join(by_name)}")
    return tuple(by_name[c] for c in columns)
