"""A builder of Delta tables on the local disk, for tests and demos.

    t = DeltaTable.create(tmp_path / "orders", {"id": "long", "region": "string", "price": "decimal(9, 2)"},
                          partition_columns=["region"], column_mapping="name")
    f = t.write_data([{"id": 1, "region": "eu", "price": "9.99"}, {"id": 2, "region": "eu", "price": None}])
    t.append(f)                                                   # a commit
    t.delete(f, [0])                                              # a deletion vector: the pair of remove and add
    t.add_column("note", "string")
    t.commit(add=[t.write_data([{"id": 3, "region": "us"}])], remove=[f], operation="MERGE")
    t.checkpoint(kind="v2-json", sidecars=2)                      # needs the feature v2Checkpoint
    t.edit_commit(1, lambda actions: actions.pop())               # and now it is broken

What it writes follows the protocol; unusual and broken tables are made by editing what it wrote (`edit_commit`,
`edit_last_checkpoint`, `DeltaFile.add`, raw actions and lines in `commit`, `corrupt`, `truncate`). Times, ids and
names are counted, not drawn, so the same calls write the same table. It shares no code with the reader.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

import pyarrow as pa

from harness.metadata.model.schema import CellValue, Field, Schema
from harness.writing.delta.checkpoint import (
    CheckpointForm,
    CheckpointOptions,
    WrittenCheckpoint,
    hint_text,
    write_checkpoint,
)
from harness.writing.delta.document import DeltaDocument, MappingModeName, edit_schema, named_protocol
from harness.writing.delta.files import (
    BitmapFormat,
    DeltaFile,
    DeltaFileOptions,
    VectorStorage,
    add_action,
    file_table,
    physical_fields,
    table_statistics,
    write_parquet,
    write_vectors,
)
from harness.writing.delta.log import CommitRequest, DeltaLog, commit_actions, vector_id
from harness.writing.delta.types import JsonObject, SchemaText
from harness.writing.delta.values import (
    columns_by_name,
    encoded_path,
    explicit_partition_values,
    group_by_partition,
    json_text,
    partition_folder,
    shared_partition_values,
)
from harness.writing.iceberg.evolution import find_field
from harness.writing.iceberg.files import stored_rows
from harness.writing.local_files import FIRST_TIMESTAMP_MS, FieldPath, check_inside, corrupt, derived_uuid, truncate

__all__ = ["DeltaFile", "DeltaFileOptions", "DeltaTable", "corrupt", "edit_schema", "named_protocol", "truncate"]


Addressing: TypeAlias = Literal["relative", "/", "file:/", "file:///", "file://localhost/"]


@dataclass(frozen=True, slots=True)
class _DataFileWriter:
    """Writes files of one table under one schema. mapped: whether files carry field ids."""

    directory: Path
    schema: Schema
    options: DeltaFileOptions
    has_field_ids: bool

    def content(
        self,
        rows: Sequence[dict[int, CellValue]] | pa.Table,
        columns: Sequence[str] | None,
        hidden: Collection[str],
        names: Mapping[str, str],
    ) -> tuple[pa.Table, JsonObject | None]:
        """The columns of the file and its statistics. hidden: columns that only the log holds.

        An Arrow table is written as it is; the statistics are of its columns that have physical names.
        """
        fields = self._file_fields(columns, hidden)
        log_fields = physical_fields(fields, {})
        if isinstance(rows, pa.Table):
            return rows, table_statistics(rows, fields, log_fields, self.options)
        under_log_names = file_table(log_fields, rows, ids="none")
        stats = table_statistics(under_log_names, fields, log_fields, self.options)
        others = {find_field(self.schema, path).id: name for path, name in names.items()}
        with_ids = self.has_field_ids if self.options.field_ids is None else self.options.field_ids
        file_fields = physical_fields(fields, others)
        return file_table(file_fields, rows, ids="ids" if with_ids else "none"), stats

    def write(
        self,
        table: pa.Table,
        path: str,
        addressing: Addressing,
        partition_values: Mapping[str, str | None],
        modified_ms: int,
        stats: JsonObject | None,
    ) -> DeltaFile:
        """Write the file; its handle."""
        file = self.directory / path
        write_parquet(file, table, self.options, modified_ms)
        if addressing == "relative" and not Path(path).is_absolute():
            recorded = encoded_path(path)
        else:
            start = "file:///" if addressing == "relative" else addressing
            recorded = start + encoded_path(str(file.absolute()).lstrip("/"))
        add = add_action(recorded, file, partition_values, modified_ms, stats)
        return DeltaFile(file, add, table.num_rows)

    def _file_fields(self, columns: Sequence[str] | None, hidden: Collection[str]) -> tuple[Field, ...]:
        if columns is not None:
            return tuple(find_field(self.schema, c) for c in columns)
        return tuple(f for f in self.schema.fields if f.name not in hidden)


class DeltaTable:
    """A table in `directory`, made in `origin`. Make one with `create`; every change of it is a commit.

    within: the directory that all data files and deletion vectors must be in; None: they may be anywhere.
    """

    def __init__(self, directory: Path, document: DeltaDocument) -> None:
        self.directory = self.origin = directory
        self.document = document
        self.log = DeltaLog(directory / "_delta_log")
        self.handles: list[DeltaFile] = []
        self.allowed_directory: Path | None = None
        self._vector_files = 0

    @classmethod
    def create(
        cls,
        directory: str | Path,
        schema: SchemaText | Schema,
        *,
        partition_columns: Sequence[str] = (),
        configuration: Mapping[str, str] | None = None,
        column_mapping: MappingModeName = "none",
        features: Collection[str] = (),
        protocol: JsonObject | None = None,
        field_metadata: Mapping[FieldPath, Mapping[str, object]] | None = None,
        timestamp: int | None = None,
        in_commit_timestamp: int | None = None,
    ) -> DeltaTable:
        """A new empty table in `directory`, at version 0.

        schema: {name: type text}, a `schemaString` document, or a logical schema (see `types.schema_json`).
        features: beyond those that the configuration and the types need. protocol: replaces the derived one.
        field_metadata: more metadata by column path. timestamp: of the commit, in milliseconds; None: counted.
        """
        directory = Path(directory)
        document = DeltaDocument(directory.name, schema, partition_columns)
        document.metadata["createdTime"] = FIRST_TIMESTAMP_MS if timestamp is None else timestamp
        document.configuration.update(configuration or {})
        document.initialize(column_mapping, field_metadata or {}, features)
        if protocol is not None:
            document.protocol = dict(protocol)
        table = cls(directory, document)
        start = [{"protocol": document.protocol}, {"metaData": document.metadata_action()}]
        table.commit(start, operation="CREATE TABLE", timestamp=timestamp, in_commit_timestamp=in_commit_timestamp)
        return table

    @property
    def version(self) -> int:
        """The newest version."""
        return self.log.version

    @property
    def schema(self) -> Schema:
        """The current schema; `physical_name` is that of column mapping."""
        return self.document.schema

    @property
    def partition_fields(self) -> tuple[Field, ...]:
        """The partition columns, in the order of `partitionColumns`."""
        return columns_by_name(self.schema, self.document.metadata["partitionColumns"])

    @property
    def live_files(self) -> tuple[DeltaFile, ...]:
        """The handles whose files the newest version holds, in the order in which they were written."""
        files = self.log.state().files
        return tuple(h for h in self.handles if "add" in files.get((unquote(h.path), vector_id(h.deletion_vector)), {}))

    # -- files; nothing is committed ----------------------------------------------------------------------------------

    def write_data(
        self,
        rows: Sequence[Mapping[str, object]] | pa.Table,
        *,
        partition: Mapping[str, object] | None = None,
        partition_text: Mapping[str, str | None] | None = None,
        schema: Schema | None = None,
        columns: Sequence[str] | None = None,
        names: Mapping[str, str] | None = None,
        partition_columns: Literal["log", "file"] = "log",
        extra: Mapping[str, pa.Array] | None = None,
        row_ids: Sequence[int | None] | None = None,
        row_commit_versions: Sequence[int | None] | None = None,
        path: str | None = None,
        addressing: Addressing = "relative",
        recorded: str | None = None,
        modified_ms: int | None = None,
        **file_options: Any,
    ) -> DeltaFile:
        """Write a data file.

        rows: mappings by column name, values as Python has them or as internal values; or an Arrow table, written as
        it is. partition: natural values by partition column; None: those that the rows share. partition_text: texts as
        the log shall hold them, by partition column. partition_columns: `file` puts them into the file too.
        schema: write under this schema in place of the current one (an older one, with narrower types).
        columns: only these top-level columns, in this order. names: other physical names in the file, by path.
        extra: more columns of the file. row_ids, row_commit_versions: materialised ones, null where the default holds.
        path: relative to the table, or absolute; None: counted, in a folder named after the partition.
        addressing: how the log names the file; recorded: the text itself. more: fields of FileOptions, such as
        `statistics="none"`, `row_group_size=10`, `compression="zstd"`, `field_ids=False`.
        """
        schema = self.schema if schema is None else schema
        content = rows if isinstance(rows, pa.Table) else stored_rows(schema, rows)
        places = self.partition_fields
        if partition is None and partition_text is None:
            values = shared_partition_values(places, content)
        else:
            values = explicit_partition_values(places, partition or {}, partition_text or {})
        writer = _DataFileWriter(self.directory, schema, DeltaFileOptions(**file_options), self.document.mode != "none")
        hidden = {f.name for f in places} if partition_columns == "log" else set()
        table, stats = writer.content(content, columns, hidden, names or {})
        for name, values_ in self.document.row_columns(row_ids, row_commit_versions).items():
            table = table.append_column(name, pa.array(values_, pa.int64()))
        for name, array in (extra or {}).items():
            table = table.append_column(name, array)
        number = len(self.handles) + 1
        path = f"{partition_folder(places, values)}part-{number:05d}.parquet" if path is None else path
        modified_ms = self.log.commit_time(self.version + 1) if modified_ms is None else modified_ms
        self._check_path(self.directory / path)
        handle = writer.write(table, path, addressing, values, modified_ms, stats)
        if recorded is not None:
            handle.add["path"] = recorded
        self.handles.append(handle)
        return handle

    def write_partitioned(self, rows: Sequence[Mapping[str, object]], **file_options: Any) -> tuple[DeltaFile, ...]:
        """Write one data file per partition of the rows, in the order in which the partitions first occur."""
        groups = group_by_partition(self.partition_fields, rows, stored_rows(self.schema, rows))
        return tuple(self.write_data(group, **file_options) for group in groups)

    def write_changes(
        self, rows: Sequence[Mapping[str, object]], change_type: str | Sequence[str], **file_options: Any
    ) -> DeltaFile:
        """Write a change data file, for `commit(cdc=...)`; one change type for all rows, or one for each."""
        types = [change_type] * len(rows) if isinstance(change_type, str) else list(change_type)
        path = f"_change_data/cdc-{len(self.handles) + 1:05d}.parquet"
        column = {"_change_type": pa.array(types, pa.string())}
        return self.write_data(rows, **{"path": path, "extra": column, **file_options})

    def write_vectors(
        self,
        positions: Mapping[DeltaFile, Iterable[int]],
        *,
        storage: VectorStorage = "u",
        prefix: str = "",
        format: BitmapFormat = "portable",
    ) -> dict[DeltaFile, JsonObject]:
        """Write one file with a deletion vector for each data file (`i`: no file); their descriptors.

        positions: all 0-based positions of its dead rows. storage: `u` relative, `p` absolute, `i` inline.
        prefix: the folder that the file stands in.
        """
        self._vector_files += 1
        name = derived_uuid(f"deletion vector {self._vector_files}")
        at, sets = self.log.commit_time(self.version + 1), positions.values()
        self._check_path(self.directory / prefix)
        found = write_vectors(self.directory, name, at, sets, storage=storage, prefix=prefix, form=format)
        return dict(zip(positions, found, strict=True))

    def _check_path(self, path: Path) -> None:
        if self.allowed_directory is not None:
            check_inside(self.allowed_directory, path)

    # -- commits ------------------------------------------------------------------------------------------------------

    def append(self, *handles: DeltaFile, **commit_options: Any) -> int:
        """Commit added files; the version. more: as for `commit`."""
        return self.commit(add=handles, **commit_options)

    def remove(self, *handles: DeltaFile, **commit_options: Any) -> int:
        """Commit the removal of files; the version. more: as for `commit`."""
        return self.commit(**{"remove": handles, "operation": "DELETE", **commit_options})

    def overwrite(self, *handles: DeltaFile, **commit_options: Any) -> int:
        """Commit these files in place of all live ones; the version. more: as for `commit`."""
        return self.commit(add=handles, remove=self.live_files, **commit_options)

    def commit(
        self,
        actions: Sequence[JsonObject] = (),
        *,
        add: Sequence[DeltaFile | JsonObject] = (),
        remove: Sequence[DeltaFile | JsonObject] = (),
        cdc: Sequence[DeltaFile | JsonObject] = (),
        raw: Sequence[str] = (),
        version: int | None = None,
        timestamp: int | None = None,
        **commit_options: Any,
    ) -> int:
        """Write a commit; its version.

        actions: whole actions, such as {"txn": {...}}. add, remove, cdc: handles, or the content of raw actions.
        raw: lines written after all actions, which the builder does not look at. version: None: the next one.
        timestamp: its time in milliseconds, as the file's modification time and in commitInfo; None: counted.
        more: fields of `log.Change`: operation, parameters, info, in_commit_timestamp, data_change.
        """
        version = self.version + 1 if version is None else version
        time_ms = self.log.commit_time(version) if timestamp is None else timestamp
        change = CommitRequest(actions=actions, add=add, remove=remove, cdc=cdc, **commit_options)
        written = commit_actions(change, self.document, self.log.newest_state, version, time_ms)
        self.log.write(version, written, raw, time_ms)
        return version

    def delete(self, handle: DeltaFile, positions: Iterable[int], **commit_options: Any) -> int:
        """Commit that these rows of a file (0-based positions) are dead too; the version. more: see `delete_rows`."""
        return self.delete_rows({handle: positions}, **commit_options)

    def delete_rows(
        self,
        positions: Mapping[DeltaFile, Iterable[int]],
        *,
        storage: VectorStorage = "u",
        prefix: str = "",
        format: BitmapFormat = "portable",
        **commit_options: Any,
    ) -> int:
        """Commit that these rows of some files are dead too, with all deletion vectors in one file; the version.

        Each file gets a vector with its old and new positions, and its bounds are no longer tight. The protocol gets
        the feature deletionVectors if it lacks it. storage, prefix, format: as for `write_vectors`. more: as for
        `commit`.
        """
        dead = {h: h.positions | frozenset(p) for h, p in positions.items()}
        vectors = self.write_vectors(dead, storage=storage, prefix=prefix, format=format)
        upgrade = [{"protocol": self.document.protocol}] if self.document.require(["deletionVectors"]) else []
        before = [replace(h) for h in positions]
        for handle, vector in vectors.items():
            handle.set_deletion_vector(vector, dead[handle])
        return self.commit(
            upgrade, **{"add": list(positions), "remove": before, "operation": "DELETE", **commit_options}
        )

    # -- table changes; each is a commit ------------------------------------------------------------------------------

    def add_column(
        self,
        name: str,
        type_text: str | JsonObject,
        *,
        parent: FieldPath | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> int:
        """Add a column at the end, or a field to the struct at `parent`; the version."""
        return self.change("ADD COLUMNS", lambda doc: doc.add(name, type_text, parent, metadata or {}))

    def drop_column(self, path: FieldPath) -> int:
        """Drop a column or a nested field; the version."""
        return self.change("DROP COLUMNS", lambda doc: doc.drop(path))

    def rename_column(self, path: FieldPath, name: str) -> int:
        """Rename a column or a nested field; under column mapping its physical name stays. The version."""
        return self.change("RENAME COLUMN", lambda doc: doc.rename(path, name))

    def move_column(self, path: FieldPath, index: int) -> int:
        """Move a column or nested field to a 0-based place among its siblings; the version."""
        return self.change("CHANGE COLUMN", lambda doc: doc.move(path, index))

    def widen_column(self, path: FieldPath, type_text: str, *, annotation: Mapping[str, object] | None = None) -> int:
        """Give a column (or `a.element`, `m.value`) a wider type, with its note in `delta.typeChanges`; the version.

        annotation: replaces the note; `{}` leaves none. Whether the change is a legal one is not checked.
        """

        def widen(doc: DeltaDocument) -> None:
            doc.configuration.setdefault("delta.enableTypeWidening", "true")
            doc.widen(path, type_text, annotation)

        return self.change("CHANGE COLUMN", widen)

    def set_column_mapping(self, mode: MappingModeName) -> int:
        """Turn column mapping on for a table that has files: physical names are the names of now. The version."""
        return self.change("SET TBLPROPERTIES", lambda doc: doc.map_columns(mode, "same"))

    def set_configuration(self, properties: Mapping[str, str | None]) -> int:
        """Set table properties, or unset those given as None, with the features that they need; the version.

        In-commit timestamps that are turned on get their enablement version and time (delta L35).
        """
        version, time_ms = self.version + 1, self.log.commit_time(self.version + 1)
        return self.change("SET TBLPROPERTIES", lambda doc: doc.configure(properties, version, time_ms))

    def set_protocol(self, protocol: JsonObject) -> int:
        """Commit any protocol; the version."""
        self.document.protocol = dict(protocol)
        return self.commit([{"protocol": self.document.protocol}], operation="UPGRADE PROTOCOL")

    def change(self, operation: str, edit: Callable[[DeltaDocument], object], **commit_options: Any) -> int:
        """Change the table's document and commit its metaData, and its protocol if features are new; the version."""
        edit(self.document)
        upgraded = self.document.require(self.document.needed_features())
        actions = [{"protocol": self.document.protocol}] if upgraded else []
        return self.commit(
            [*actions, {"metaData": self.document.metadata_action()}], operation=operation, **commit_options
        )

    # -- beside the commits -------------------------------------------------------------------------------------------

    def checkpoint(
        self,
        kind: CheckpointForm = "classic",
        version: int | None = None,
        *,
        hint: bool = True,
        **checkpoint_options: Any,
    ) -> WrittenCheckpoint:
        """Write a checkpoint of a version (None: the newest), and `_last_checkpoint` if `hint`.

        more: fields of `harness.writing.delta.checkpoint.CheckpointOptions`, such as `parts=3`, `sidecars=2`.

        Raises:
            RequestError: a V2 checkpoint of a table whose protocol lacks the feature v2Checkpoint.
        """
        version = self.version if version is None else version
        options = CheckpointOptions(kind=kind, **checkpoint_options)
        state = self.log.state(version)
        written = write_checkpoint(self.log.directory, version, state, self.log.commit_time(version), options)
        if hint:
            self.write_last_checkpoint(hint_text(written.hint))
        return written

    def compact(self, first: int, last: int) -> Path:
        """Write the log compaction file of the versions `first` to `last`, both included."""
        return self.log.write_compaction(first, last)

    def write_checksum(self, version: int | None = None, **extra: object) -> Path:
        """Write the version checksum file (None: of the newest version), with fields of `extra` added or replaced."""
        return self.log.write_checksum(self.version if version is None else version, extra)

    def move(self, directory: Path) -> None:
        """Move the whole table to another directory; what the log says stays."""
        shutil.move(self.directory, directory)
        for handle in self.handles:
            if handle.file.is_relative_to(self.directory):
                handle.file = directory / handle.file.relative_to(self.directory)
        self.directory = directory
        self.log.directory = directory / "_delta_log"

    def vacuum(self) -> None:
        """Delete the data files that the newest version does not hold."""
        for file in {h.file for h in self.handles} - {h.file for h in self.live_files}:
            file.unlink(missing_ok=True)

    def expire_log(self, before: int) -> None:
        """Delete the commit files of all versions below `before`; checkpoints stay."""
        for version in range(before):
            self.log.commit_path(version).unlink(missing_ok=True)

    # -- unusual and broken tables ------------------------------------------------------------------------------------

    def actions(self, version: int | None = None) -> list[JsonObject]:
        """The actions of a commit as it was written; None: the newest."""
        return self.log.commits[self.version if version is None else version]

    def edit_commit(self, version: int, change: Callable[[list[JsonObject]], object]) -> None:
        """Change the actions of a commit in place and write its file again, with the same time."""
        self.log.edit(version, change)

    def edit_last_checkpoint(self, change: Callable[[JsonObject], object]) -> None:
        """Change the hint in place and write it again; its checksum stays as it was unless `change` touches it."""
        change(hint := self.log.hint())
        self.write_last_checkpoint(json_text(hint))

    def write_last_checkpoint(self, text: str) -> None:
        """Write any text as `_last_checkpoint`."""
        self.log.write_text(self.log.hint_path, text, self.log.commit_time(self.version))
