"""Checkpoints: classic, multi-part, and V2 with a top file in Parquet or JSON and sidecars.

Spec: Delta, "Checkpoints", "Checkpoint Schema", "Last Checkpoint File".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import RequestError
from harness.metadata.model.schema import (
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    Schema,
    StringType,
    StructType,
    TimestampType,
    Type,
    UnknownType,
    arrow_type,
)
from harness.writing.delta.document import MAPPING_MODE
from harness.writing.delta.log import LogState
from harness.writing.delta.types import JsonObject, schema_of
from harness.writing.delta.values import columns_by_name, json_text, partition_value, statistics_value
from harness.writing.local_files import default_codec, derived_uuid, set_time

_TEXT = pa.string()
_MAP = pa.map_(_TEXT, _TEXT)
_VECTOR = pa.struct(
    {
        "storageType": _TEXT,
        "pathOrInlineDv": _TEXT,
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
        "maxRowIndex": pa.int64(),
    }
)
_ROW_TRACKING = {"baseRowId": pa.int64(), "defaultRowCommitVersion": pa.int64()}
ACTION_FIELDS: dict[str, pa.StructType] = {
    "txn": pa.struct({"appId": _TEXT, "version": pa.int64(), "lastUpdated": pa.int64()}),
    "add": pa.struct(
        {
            "path": _TEXT,
            "partitionValues": _MAP,
            "size": pa.int64(),
            "modificationTime": pa.int64(),
            "dataChange": pa.bool_(),
            "tags": _MAP,
            "deletionVector": _VECTOR,
            **_ROW_TRACKING,
            "clusteringProvider": _TEXT,
            "stats": _TEXT,
        }
    ),
    "remove": pa.struct(
        {
            "path": _TEXT,
            "deletionTimestamp": pa.int64(),
            "dataChange": pa.bool_(),
            "extendedFileMetadata": pa.bool_(),
            "partitionValues": _MAP,
            "size": pa.int64(),
            "tags": _MAP,
            "deletionVector": _VECTOR,
            **_ROW_TRACKING,
        }
    ),
    "metaData": pa.struct(
        {
            "id": _TEXT,
            "name": _TEXT,
            "description": _TEXT,
            "format": pa.struct({"provider": _TEXT, "options": _MAP}),
            "schemaString": _TEXT,
            "partitionColumns": pa.list_(_TEXT),
            "configuration": _MAP,
            "createdTime": pa.int64(),
        }
    ),
    "protocol": pa.struct(
        {
            "minReaderVersion": pa.int32(),
            "minWriterVersion": pa.int32(),
            "readerFeatures": pa.list_(_TEXT),
            "writerFeatures": pa.list_(_TEXT),
        }
    ),
    "domainMetadata": pa.struct({"domain": _TEXT, "configuration": _TEXT, "removed": pa.bool_()}),
    "checkpointMetadata": pa.struct({"version": pa.int64(), "tags": _MAP}),
    "sidecar": pa.struct({"path": _TEXT, "sizeInBytes": pa.int64(), "modificationTime": pa.int64(), "tags": _MAP}),
}


def _statistics_row(text: str | None, schema: Schema) -> JsonObject | None:
    """Return the row of `stats_parsed` for the text of `stats`."""
    if text is None:
        return None
    stats = json.loads(text, parse_float=Decimal)
    struct = StructType(schema.fields)
    for part in ("minValues", "maxValues"):
        if part in stats:
            stats[part] = statistics_value(struct, stats[part])
    return dict(stats)


def fit_to_schema(schema: pa.Schema, action: JsonObject) -> JsonObject:
    """Return a JSON action as a row of a schema: maps become pairs, and keys that are not in the schema are dropped."""
    return {f.name: _fit(f.type, action.get(f.name)) for f in schema}


def _fit(type_: pa.DataType, value: Any) -> object:
    if value is None:
        return None
    if pa.types.is_struct(type_):
        return {f.name: _fit(f.type, value.get(f.name)) for f in type_}
    if pa.types.is_map(type_):
        return list(value.items())
    return value


def _bounds_type(fields: Sequence[Field]) -> pa.StructType | None:
    columns = []
    for f in fields:
        kind = _bounds_type(f.type.fields) if isinstance(f.type, StructType) else _bound_type(f.type)
        if kind is not None:
            columns.append(pa.field(f.physical_name or f.name, kind))
    return pa.struct(columns) if columns else None


def _bound_type(type_: Type) -> pa.DataType | None:
    match type_:
        case IntegerType() | FloatType() | DecimalType() | DateType() | TimestampType() | StringType():
            return arrow_type(type_)
        case _:
            return None


def _nulls_type(fields: Sequence[Field]) -> pa.StructType | None:
    columns = []
    for f in fields:
        match f.type:
            case StructType(fields=inner):
                kind = _nulls_type(inner)
            case UnknownType():
                kind = None
            case _:
                kind = pa.int64()
        if kind is not None:
            columns.append(pa.field(f.physical_name or f.name, kind))
    return pa.struct(columns) if columns else None


CheckpointForm: TypeAlias = Literal["classic", "multi-part", "v2-parquet", "v2-json"]
_V2_ONLY = ("checkpointMetadata", "sidecar")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOptions:
    """Options of a checkpoint.

    Attributes:
        kind: The form of the checkpoint.
        parts: The number of files of a multi-part checkpoint.
        sidecars: The number of sidecars of a V2 checkpoint. 0 puts the file actions into the top file.
        classic_name: If true, a V2 Parquet checkpoint has the name of a classic one.
        stats_json: If true, `add` has the column `stats`.
        stats_parsed: If true, `add` has the column `stats_parsed`.
        partition_values_parsed: If true, `add` has the column `partitionValues_parsed`.
        columns: The action columns of Parquet files. None for all columns of the kind.
        own_columns: If true, each file has only the columns of actions that it contains.
        row_group_size: The maximum number of rows per row group.
        int96: If true, times are stored as INT96, as Databricks does.
        tombstones: If true, removed files are listed.
    """

    kind: CheckpointForm = "classic"
    parts: int = 2
    sidecars: int = 1
    classic_name: bool = False
    stats_json: bool = True
    stats_parsed: bool = False
    partition_values_parsed: bool = False
    columns: Sequence[str] | None = None
    own_columns: bool = False
    row_group_size: int | None = None
    int96: bool = False
    tombstones: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCheckpoint:
    """The files of a checkpoint that was written.

    Attributes:
        files: The top-level files.
        sidecars: The sidecars.
        hint: The content of `_last_checkpoint` for this checkpoint, without the checksum.
    """

    files: tuple[Path, ...]
    sidecars: tuple[Path, ...]
    hint: JsonObject


def write_checkpoint(
    directory: Path, version: int, state: LogState, time_ms: int, options: CheckpointOptions
) -> WrittenCheckpoint:
    """Write a checkpoint of a state into the log directory.

    Args:
        directory: The log directory.
        version: The version of the state.
        state: The reconciled actions.
        time_ms: The modification time of the files, in milliseconds since 1970-01-01 UTC.
        options: The form and content of the checkpoint.

    Returns:
        The files that were written.

    Raises:
        RequestError: The state has no metaData, or lacks the feature v2Checkpoint that the kind requires.
    """
    metadata, protocol = state.metadata, state.protocol or {}
    if metadata is None:
        raise RequestError(f"Cannot write a checkpoint of version {version}: no commit up to it has a metaData action")
    if options.kind.startswith("v2") and "v2Checkpoint" not in protocol.get("readerFeatures", ()):
        raise RequestError("Cannot write a V2 checkpoint: create the table with features=['v2Checkpoint']")
    mapped = metadata["configuration"].get(MAPPING_MODE, "none") != "none"
    schema, partition = Schema(fields=()), tuple[Field, ...]()
    if options.stats_parsed or options.partition_values_parsed:
        schema = schema_of(json.loads(metadata["schemaString"]), mapped=mapped)
        partition = columns_by_name(schema, metadata["partitionColumns"])
    return _CheckpointWriter(directory, version, schema, partition, time_ms, options).write(state)


def hint_text(hint: JsonObject) -> str:
    """Return the content of `_last_checkpoint`: the hint and its checksum (delta L7)."""
    bare = {k: v for k, v in hint.items() if k != "checksum"}
    return json_text({**bare, "checksum": hint_checksum(json_text(bare))})


def hint_checksum(text: str) -> str:
    """Return the checksum of a hint: the MD5 of its canonical form without a checksum."""
    # The checksum covers numbers as they are written, so they are not parsed.
    document = json.loads(text, parse_float=_NumberText, parse_int=_NumberText)
    document.pop("checksum", None)
    leaves = sorted(_leaves(document, ()), key=lambda leaf: leaf[0].encode())
    return hashlib.md5(",".join(f"{path}={value}" for path, value in leaves).encode()).hexdigest()


class _NumberText(str):
    """The text of a JSON number."""


class _CheckpointWriter:
    def __init__(
        self,
        directory: Path,
        version: int,
        schema: Schema,
        partition: Sequence[Field],
        time_ms: int,
        options: CheckpointOptions,
    ) -> None:
        self.directory = directory
        self.version = version
        self.time_ms = time_ms
        self.options = options
        self.parsed: dict[str, pa.StructType] = {}
        if options.stats_parsed:
            places = {f.id for f in partition}
            fields = [f for f in schema.fields if f.id not in places]
            bounds = _bounds_type(fields)
            nulls = _nulls_type(fields)
            parts = [("minValues", bounds), ("maxValues", bounds), ("nullCount", nulls)]
            present = [pa.field(name, type_) for name, type_ in parts if type_ is not None]
            self.parsed["stats_parsed"] = pa.struct(
                [pa.field("numRecords", pa.int64()), *present, pa.field("tightBounds", pa.bool_())]
            )
        if options.partition_values_parsed and partition:  # Parquet has no empty structs
            self.parsed["partitionValues_parsed"] = pa.struct(
                [pa.field(f.physical_name or f.name, arrow_type(f.type)) for f in partition]
            )
        self.schema = schema
        self.partition = partition

    def write(self, state: LogState) -> WrittenCheckpoint:
        removes = [{"remove": {**r, "dataChange": False}} for r in state.removes] if self.options.tombstones else []
        adds = [{"add": {**a, "dataChange": False}} for a in state.adds]
        meta = state.metadata_actions()
        sidecars: list[Path] = []
        match self.options.kind:
            case "classic":
                files = [self._parquet(f"{self._stem}.parquet", [*meta, *removes, *adds], v2=False)]
            case "multi-part":
                count = self.options.parts
                names = [f"{self._stem}.{i + 1:010d}.{count:010d}.parquet" for i in range(count)]
                all_actions = [*meta, *removes, *adds]
                files = [self._parquet(name, all_actions[i::count], v2=False) for i, name in enumerate(names)]
            case "v2-parquet" | "v2-json":
                files, sidecars = self._v2(meta, [*removes, *adds])
        hint = self._hint(files, sidecars, len(meta) + len(removes) + len(adds), len(adds))
        return WrittenCheckpoint(files=tuple(files), sidecars=tuple(sidecars), hint=hint)

    @property
    def _stem(self) -> str:
        return f"{self.version:020d}.checkpoint"

    def _v2(self, meta: list[JsonObject], file_actions: list[JsonObject]) -> tuple[list[Path], list[Path]]:
        count = self.options.sidecars
        names = [derived_uuid(f"sidecar {self.version} {self.options.kind} {i} of {count}") for i in range(count)]
        sidecars = [
            self._parquet(f"_sidecars/{name}.parquet", file_actions[i::count], v2=False) for i, name in enumerate(names)
        ]
        references = [{"sidecar": self._reference(path)} for path in sidecars]
        checkpoint_metadata = {"checkpointMetadata": {"version": self.version}}
        actions = [checkpoint_metadata, *meta, *(references if count else file_actions)]
        format_ = "json" if self.options.kind == "v2-json" else "parquet"
        name = f"{self._stem}.{derived_uuid(f'checkpoint {self.version} {format_}')}.{format_}"
        if self.options.classic_name:
            if format_ == "json":
                raise RequestError(
                    "Cannot use classic_name for a JSON checkpoint: classic checkpoints are Parquet files"
                )
            name = f"{self._stem}.parquet"
        if format_ == "parquet":
            return [self._parquet(name, actions, v2=True)], sidecars
        path = self.directory / name
        path.write_text("".join(f"{json_text(a)}\n" for a in actions), encoding="utf-8")
        set_time(path, self.time_ms)
        return [path], sidecars

    def _reference(self, path: Path) -> JsonObject:
        size = path.stat().st_size
        return {"path": path.name, "sizeInBytes": size, "modificationTime": self.time_ms, "tags": None}

    def _parquet(self, name: str, actions: Sequence[JsonObject], *, v2: bool) -> Path:
        kinds = {kind for action in actions for kind in action}
        columns = self.options.columns or [n for n in ACTION_FIELDS if v2 or n not in _V2_ONLY]
        fields = {n: ACTION_FIELDS[n] for n in columns if n in kinds or not self.options.own_columns}
        if "add" in fields:
            add_fields = [f for f in fields["add"] if self.options.stats_json or f.name != "stats"]
            fields["add"] = pa.struct([*add_fields, *(pa.field(name, type_) for name, type_ in self.parsed.items())])
        schema = pa.schema(list(fields.items()))
        rows = [fit_to_schema(schema, self._with_parsed_columns(action)) for action in actions]
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pylist(rows, schema=schema)
        write_options = {
            "row_group_size": self.options.row_group_size,
            "use_deprecated_int96_timestamps": self.options.int96,
        }
        pq.write_table(table, path, **write_options, store_schema=False, compression=default_codec("snappy", "none"))
        set_time(path, self.time_ms)
        return path

    def _with_parsed_columns(self, action: JsonObject) -> JsonObject:
        """Return the action with the parsed columns that the options require."""
        if "add" not in action or not self.parsed:
            return action
        add = action["add"]
        names = {f.physical_name or f.name: f.type for f in self.partition}
        return {
            "add": {
                **add,
                "stats_parsed": _statistics_row(add.get("stats"), self.schema),
                "partitionValues_parsed": {
                    name: partition_value(type_, add["partitionValues"].get(name)) for name, type_ in names.items()
                },
            }
        }

    def _hint(self, files: Sequence[Path], sidecars: Sequence[Path], size: int, adds: int) -> JsonObject:
        total = sum(p.stat().st_size for p in [*files, *sidecars])
        hint: JsonObject = {"version": self.version, "size": size}
        if self.options.kind == "multi-part":
            hint["parts"] = self.options.parts
        return {**hint, "sizeInBytes": total, "numOfAddFiles": adds}


def _leaves(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for key, item in value.items():
                yield from _leaves(item, (*path, f'"{_percent_encode(key)}"'))
        case list():
            for index, item in enumerate(value):
                yield from _leaves(item, (*path, str(index)))
        case _NumberText():
            yield "+".join(path), str(value)
        case str():
            yield "+".join(path), f'"{_percent_encode(value)}"'
        case _:
            yield "+".join(path), json.dumps(value)


def _percent_encode(text: str) -> str:
    return quote(text, safe="-._~")
