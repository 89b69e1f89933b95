"""The files of an Iceberg scenario: mappings that `append` and `commit` add, written by the builder.

    {data: LABEL, rows: ROWS, ...}                          a data file
    {position-deletes: [[LABEL, 0], ...], ...}              a position delete file; labels, or paths with a slash
    {equality-deletes: [id], rows: ROWS, ...}               an equality delete file; columns by name or field id
    {deletion-vectors: {LABEL: [0, 2]}, ...}                one Puffin file with a vector for each data file; many
                                                            positions can be counted like rows

    LABEL                                                   an existing file, for example a removed one

Each mapping may have `label`, so that other operations can name it (one of several vectors: `label.LABEL`), and `set`,
which changes its manifest entry before the commit: {record_count: 7, lower_bounds: {id: 3}}; bounds and counts by
column name. Every other key is an option of the builder's method in kebab case: format, partition, spec-id, columns,
names, path, field-ids, row-ids, row-group-size, compression, statistics, bounds-length, physical, writer-options, ...
Data files and equality deletes also accept schema: the id of the schema to write with; types: {column: type text},
other physical types.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from functools import partial
from typing import Any

from harness.errors import RequestError
from harness.metadata.model.schema import Field, Schema
from harness.suite.scenarios.arguments import Arguments, checked, look_up, short_repr
from harness.suite.scenarios.values import expand_rows, natural_rows, parse_value
from harness.writing.iceberg.avro import int_map
from harness.writing.iceberg.builder import IcebergFile, IcebergFileOptions, IcebergTable
from harness.writing.iceberg.evolution import change, find_field, project
from harness.writing.iceberg.types import bound_bytes, parse_type

_FILE_OPTIONS = frozenset(f.name for f in dataclass_fields(IcebergFileOptions))
_BOUNDS = ("lower_bounds", "upper_bounds")
_COUNTS = ("value_counts", "null_value_counts", "nan_value_counts", "column_sizes")


class IcebergWrites:
    """Writes files and keeps their handles: `files` by label, and `written` in the order of writing."""

    def __init__(self, table: IcebergTable) -> None:
        self.table = table
        self.files: dict[str, IcebergFile] = {}
        self.written: list[IcebergFile] = []

    def write(self, file: object, place: str) -> tuple[IcebergFile, ...]:
        """Write the files that a mapping describes, without committing them. A label stands for an existing file.

        Raises:
            RequestError: The mapping does not describe a file, no file has the label, a key is unknown, or a value does
                not fit.
        """
        if isinstance(file, str):
            return (look_up(self.files, file, "file", place),)
        arguments = Arguments(file, place)
        label = arguments.typed(str, "label", None)
        changes = arguments.typed(dict, "set", {})
        for kind, write in _KINDS.items():
            if arguments.has(kind):
                labeled = write(self, arguments)
                break
        else:
            raise RequestError(
                f"Invalid file {short_repr(file)} in {place}: expected one of the keys {', '.join(_KINDS)}"
            )
        arguments.finish()
        for own_label, handle in labeled:
            if label is not None:
                self._register(label if len(labeled) == 1 else f"{label}.{own_label}", handle, place)
            elif kind == "data" and own_label is not None:
                self._register(own_label, handle, place)
            for name, value in changes.items():
                is_map = name in (*_BOUNDS, *_COUNTS) and value is not None
                handle.data_file[name] = self._by_id(handle, name, value, place) if is_map else value
            self.written.append(handle)
        return tuple(handle for _, handle in labeled)

    def _register(self, label: str, handle: IcebergFile, place: str) -> None:
        if self.files.get(label, handle) is not handle:
            raise RequestError(f"Invalid label {label!r} in {place}: another file has it")
        self.files[label] = handle

    def _data(self, arguments: Arguments) -> list[tuple[str | None, IcebergFile]]:
        label = arguments.text("data")
        schema = self._schema(arguments)
        columns = arguments.texts("columns", None)
        fields = schema.fields if columns is None else tuple(find_field(schema, c) for c in columns)
        rows = natural_rows(fields, _rows(arguments))
        options = self._options(arguments, IcebergTable.write_data)
        return [(label, self.table.write_data(rows, schema=schema, columns=columns, **options))]

    def _position_deletes(self, arguments: Arguments) -> list[tuple[str | None, IcebergFile]]:
        pairs = []
        for pair in arguments.typed(list, "position-deletes"):
            target, position = checked(list, pair, f"{arguments.place}, a position")
            pairs.append((self._target(target, arguments.place), position))
        referenced: dict[str, Any] = {}
        if arguments.has("referenced"):
            referenced["referenced"] = self._target(arguments.text("referenced"), arguments.place)
        if arguments.has("rows"):
            referenced["rows"] = natural_rows(self.table.schema.fields, _rows(arguments))
        options = self._options(arguments, IcebergTable.write_position_deletes)
        return [(None, self.table.write_position_deletes(pairs, **referenced, **options))]

    def _equality_deletes(self, arguments: Arguments) -> list[tuple[str | None, IcebergFile]]:
        columns = arguments.typed(list, "equality-deletes")
        schema = self._schema(arguments)
        ids = [c if isinstance(c, int) else find_field(schema, c).id for c in columns]
        extra = [
            c if isinstance(c, int) else find_field(schema, c).id for c in arguments.typed(list, "extra-columns", [])
        ]
        rows = natural_rows(_in_given_order(schema, (*ids, *extra)), _rows(arguments))
        options = self._options(arguments, IcebergTable.write_equality_deletes)
        handle = self.table.write_equality_deletes(ids, rows, schema=schema, extra_columns=extra, **options)
        return [(None, handle)]

    def _deletion_vectors(self, arguments: Arguments) -> list[tuple[str | None, IcebergFile]]:
        by_label = arguments.typed(dict, "deletion-vectors")
        place = f"{arguments.place}, key 'deletion-vectors'"
        positions = {
            look_up(self.files, label, "file", arguments.place): expand_rows(rows, f"{place}, {label}")
            for label, rows in by_label.items()
        }
        handles = self.table.write_deletion_vectors(positions, path=arguments.typed(str, "path", None))
        return list(zip(by_label, handles, strict=True))

    def _target(self, text: object, place: str) -> IcebergFile | str:
        """Return the file with a label. A text with a slash is a recorded path."""
        return text if isinstance(text, str) and "/" in text else look_up(self.files, text, "file", place)

    def _schema(self, arguments: Arguments) -> Schema:
        """Return the schema to write with: the current schema or the schema with the given id, with the given types."""
        number, schemas = arguments.typed(int, "schema", None), {s.id: s for s in self.table.document.schemas}
        if number is not None and number not in schemas:
            raise RequestError(f"Unknown schema {number} in {arguments.place}: there are 0 to {len(schemas) - 1}")
        schema = self.table.schema if number is None else schemas[number]
        for path, text in arguments.typed(dict, "types", {}).items():
            schema = change(schema, path, partial(replace, type=parse_type(text)[0]))
        return schema

    def _options(self, arguments: Arguments, method: Callable[..., object]) -> dict[str, Any]:
        """Return the rest of the mapping as keyword arguments of a builder's method."""
        option_names = (
            set(inspect.signature(method).parameters) - {"self", "rows", "positions", "more"}
        ) | _FILE_OPTIONS
        options = {key.replace("-", "_"): value for key, value in arguments.rest().items()}
        unknown = options.keys() - option_names
        if unknown:
            keys = ", ".join(repr(k.replace("_", "-")) for k in sorted(unknown))
            raise RequestError(f"Unknown key {keys} in {arguments.place}")
        if options.get("partition") is not None:
            place, spec_id = arguments.place, options.get("spec_id", self.table.spec_id)
            types = {f.name: f.type for f in self.table.document.partition_fields(spec_id)}
            values = checked(dict, options["partition"], f"{place}, key 'partition'").items()
            options["partition"] = {
                name: parse_value(look_up(types, name, "partition field", place), value) for name, value in values
            }
        return options

    def _by_id(self, handle: IcebergFile, name: str, values: object, place: str) -> object:
        """Return the map `name` of a file's entry after changes to some of its values.

        `values` has the new values by column path. Null removes a column.
        """
        entries = {pair["key"]: pair["value"] for pair in handle.data_file.get(name) or ()}
        for path, value in checked(dict, values, f"{place}, key {name!r}").items():
            field = find_field(self.table.schema, path)
            if value is None:
                entries.pop(field.id, None)
            elif name in _BOUNDS and isinstance(value, Mapping):  # the exact bytes of the bound
                entries[field.id] = bytes.fromhex(value["bytes"])
            elif name in _BOUNDS:
                entries[field.id] = bound_bytes(field.type, parse_value(field.type, value))
            else:
                entries[field.id] = checked(int, value, f"{place}, {name}")
        return int_map(entries)


_KINDS: Mapping[str, Callable[[IcebergWrites, Arguments], list[tuple[str | None, IcebergFile]]]] = {
    "data": IcebergWrites._data,
    "position-deletes": IcebergWrites._position_deletes,
    "equality-deletes": IcebergWrites._equality_deletes,
    "deletion-vectors": IcebergWrites._deletion_vectors,
}


def _rows(arguments: Arguments) -> list[Any]:
    return expand_rows(arguments.any("rows"), f"{arguments.place}, key 'rows'")


def _in_given_order(schema: Schema, ids: Sequence[int]) -> tuple[Field, ...]:
    """Return the columns that contain these ids, in the order of the ids.

    A column with several nested keys appears once.
    """
    fields: dict[int, Field] = {}
    for id_ in ids:
        for f in project(schema.fields, set(ids)):
            if id_ in {f.id, *(inner.id for _, inner in Schema(fields=(f,)).walk())}:
                fields.setdefault(f.id, f)
    return tuple(fields.values())
