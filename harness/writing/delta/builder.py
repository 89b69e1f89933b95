"""A builder of Delta tables on the local disk, for tests and demos.

    t = DeltaTable.create(tmp_path / "orders", {"id": "long", "region": "string", "price": "decimal(9, 2)"},
                          partition_columns=["region"], column_mapping="name")
    f = t.write_data([{"id": 1, "region": "eu", "price": "9.99"}, {"id": 2, "region": "eu", "price": None}])
    t.append(f)                                                   # a commit
    t.delete(f, [0])                                              # a deletion vector: a remove and an add action
    t.add_column("note", "string")
    t.commit(add=[t.write_data([{"id": 3, "region": "us"}])], remove=[f], operation="MERGE")
    t.checkpoint(kind="v2-json", sidecars=2)                      # needs the feature v2Checkpoint
    t.edit_commit(1, lambda actions: actions.pop())               # this breaks the table

The builder follows the protocol. To make unusual or broken tables, edit its output (`edit_commit`,
`edit_last_checkpoint`, `DeltaFile.add`, raw actions and lines in `commit`, `corrupt`, `truncate`). Times, ids, and
names come from counters, so the same calls write the same table. The builder shares no code with the reader.
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
    """A writer of data files of one table under one schema.

    Attributes:
        directory: The table's directory.
        schema: The schema of the rows.
        options: The options of the files.
        has_field_ids: If true, files carry field ids.
    """

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
        """Return the columns of a file and its statistics.

        An Arrow table is returned unchanged, with the statistics of its columns that have physical names.

        Args:
            rows: Stored rows, or an Arrow table.
            columns: The top-level columns to write, in order. None for all.
            hidden: Columns that only the log holds.
            names: Physical names by column path. Other columns keep the names in the schema.
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
        """Write a file and return its handle."""
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
    """A Delta table that is being built. Create it with `create`. Every change is a commit.

    Attributes:
        directory: The current directory of the table.
        origin: The directory where the table was created.
        document: The current protocol and metaData.
        log: The transaction log.
        handles: All data files that were written, committed or not.
        allowed_directory: The directory that all data files and deletion vectors must be in. None for no restriction.
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
        """Create an empty table at version 0.

        Args:
            directory: The directory of the table.
            schema: A mapping of column names to type texts like `"decimal(9, 2)"`, the document of a `schemaString`, or
                a logical schema (see `harness.writing.delta.types.schema_json`).
            partition_columns: Names of the partition columns, in order.
            configuration: Table properties.
            column_mapping: The column mapping mode.
            features: Table features in addition to those that the configuration and the types require.
            protocol: A protocol action that replaces the derived one.
            field_metadata: Further metadata of fields, by column path.
            timestamp: The time of the commit in milliseconds since 1970-01-01 UTC. None for a counted time.
            in_commit_timestamp: The in-commit timestamp of the commit. None for the time of the commit if the table has
                in-commit timestamps.

        Returns:
            The table.
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
        """The current schema. The `physical_name` of each field is its name under column mapping."""
        return self.document.schema

    @property
    def partition_fields(self) -> tuple[Field, ...]:
        """The partition columns, in the order of `partitionColumns`."""
        return columns_by_name(self.schema, self.document.metadata["partitionColumns"])

    @property
    def live_files(self) -> tuple[DeltaFile, ...]:
        """The handles of the files in the newest version, in the order of writing."""
        files = self.log.state().files
        return tuple(h for h in self.handles if "add" in files.get((unquote(h.path), vector_id(h.deletion_vector)), {}))

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
        """Write a data file without committing it.

        Args:
            rows: Mappings by column name, with Python values or internal values; or an Arrow table, which is written
                unchanged.
            partition: Python values by partition column. None for the values that all rows share.
            partition_text: Texts by partition column, which the log records unchanged. They override `partition`.
            schema: The schema to write under, for example an older one with narrower types. None for the current
                schema.
            columns: The top-level columns to write, in this order. None for all.
            names: Physical names in the file, by column path. Other columns keep the names in the schema.
            partition_columns: `file` to write the partition columns into the file too, `log` for the log only.
            extra: Further columns of the file.
            row_ids: Materialized row ids, with null for the default. None for no such column.
            row_commit_versions: Materialized row commit versions, with null for the default. None for no such column.
            path: The path of the file, absolute or relative to the table. None for a counted name in the partition's
                directory.
            addressing: The form of the path in the log: relative, or absolute with this beginning.
            recorded: The exact path in the log. It overrides `addressing`.
            modified_ms: The modification time in milliseconds since 1970-01-01 UTC. None for the time of the next
                commit.
            file_options: Fields of `DeltaFileOptions`, for example `statistics="none"`, `row_group_size=10`,
                `compression="zstd"`, or `field_ids=False`.

        Returns:
            A handle to commit.

        Raises:
            RequestError: A value does not fit its type, the rows belong to several partitions, or the path is not
                allowed.
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
        """Write one data file per partition of the rows without committing them.

        Args:
            rows: Mappings by column name, as for `write_data`.
            file_options: As for `write_data`.

        Returns:
            The handles, one per partition, in the order of the partitions' first rows.
        """
        groups = group_by_partition(self.partition_fields, rows, stored_rows(self.schema, rows))
        return tuple(self.write_data(group, **file_options) for group in groups)

    def write_changes(
        self, rows: Sequence[Mapping[str, object]], change_type: str | Sequence[str], **file_options: Any
    ) -> DeltaFile:
        """Write a change data file for `commit(cdc=...)`.

        Args:
            rows: As for `write_data`.
            change_type: One change type for all rows, or one for each row.
            file_options: As for `write_data`.

        Returns:
            A handle to commit.
        """
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
        """Write a deletion vector for each data file, without committing them.

        All vectors are in one file, except inline vectors, which need none.

        Args:
            positions: For each data file, the 0-based positions of all its deleted rows.
            storage: The storage type: `u` for a relative path, `p` for an absolute path, `i` for inline.
            prefix: The directory of the vector file, relative to the table.
            format: The serialization of the bitmap.

        Returns:
            The descriptor of each data file's deletion vector.

        Raises:
            RequestError: The prefix contains a slash, or the directory is not allowed.
        """
        self._vector_files += 1
        name = derived_uuid(f"deletion vector {self._vector_files}")
        at, sets = self.log.commit_time(self.version + 1), positions.values()
        self._check_path(self.directory / prefix)
        descriptors = write_vectors(self.directory, name, at, sets, storage=storage, prefix=prefix, form=format)
        return dict(zip(positions, descriptors, strict=True))

    def _check_path(self, path: Path) -> None:
        if self.allowed_directory is not None:
            check_inside(self.allowed_directory, path)

    def append(self, *handles: DeltaFile, **commit_options: Any) -> int:
        """Commit added files.

        Args:
            handles: The files.
            commit_options: As for `commit`.

        Returns:
            The new version.
        """
        return self.commit(add=handles, **commit_options)

    def remove(self, *handles: DeltaFile, **commit_options: Any) -> int:
        """Commit the removal of files.

        Args:
            handles: The files.
            commit_options: As for `commit`.

        Returns:
            The new version.
        """
        return self.commit(**{"remove": handles, "operation": "DELETE", **commit_options})

    def overwrite(self, *handles: DeltaFile, **commit_options: Any) -> int:
        """Commit files that replace all live files.

        Args:
            handles: The new files.
            commit_options: As for `commit`.

        Returns:
            The new version.
        """
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
        """Write a commit.

        Args:
            actions: Whole actions, for example `{"txn": {...}}`. They come first.
            add: Files to add, as handles or as the content of add actions.
            remove: Files to remove, as handles or as the content of remove actions.
            cdc: Change data files, as handles or as the content of cdc actions.
            raw: Lines that follow the actions. The builder does not interpret them.
            version: The version. None for the next one.
            timestamp: The time of the commit in milliseconds since 1970-01-01 UTC, used as the file's modification time
                and in commitInfo. None for a counted time.
            commit_options: Fields of `harness.writing.delta.log.CommitRequest`: `operation`, `parameters`, `info`,
                `in_commit_timestamp`, and `data_change`.

        Returns:
            The version that was written.
        """
        version = self.version + 1 if version is None else version
        time_ms = self.log.commit_time(version) if timestamp is None else timestamp
        change = CommitRequest(actions=actions, add=add, remove=remove, cdc=cdc, **commit_options)
        written = commit_actions(change, self.document, self.log.newest_state, version, time_ms)
        self.log.write(version, written, raw, time_ms)
        return version

    def delete(self, handle: DeltaFile, positions: Iterable[int], **commit_options: Any) -> int:
        """Commit the deletion of rows of one file by a deletion vector.

        Args:
            handle: The file.
            positions: 0-based positions of the rows, in addition to those deleted before.
            commit_options: As for `delete_rows`.

        Returns:
            The new version.
        """
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
        """Commit the deletion of rows of several files, with all deletion vectors in one file.

        Each file gets a vector with its old and new positions, and its bounds are marked as not tight. The protocol
        gets the feature deletionVectors if it is missing.

        Args:
            positions: For each file, 0-based positions of rows, in addition to those deleted before.
            storage: As for `write_vectors`.
            prefix: As for `write_vectors`.
            format: As for `write_vectors`.
            commit_options: As for `commit`.

        Returns:
            The new version.
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

    def add_column(
        self,
        name: str,
        type_text: str | JsonObject,
        *,
        parent: FieldPath | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> int:
        """Commit a new column at the end of the table, or a new field at the end of a struct.

        Args:
            name: The name of the column or field.
            type_text: The type as text or as JSON.
            parent: The path of the struct. None for a top-level column.
            metadata: Metadata of the field.

        Returns:
            The new version.
        """
        return self.change("ADD COLUMNS", lambda doc: doc.add(name, type_text, parent, metadata or {}))

    def drop_column(self, path: FieldPath) -> int:
        """Commit the removal of a column or nested field and return the new version."""
        return self.change("DROP COLUMNS", lambda doc: doc.drop(path))

    def rename_column(self, path: FieldPath, name: str) -> int:
        """Commit a new name for a column or nested field and return the new version.

        With column mapping, the physical name stays.
        """
        return self.change("RENAME COLUMN", lambda doc: doc.rename(path, name))

    def move_column(self, path: FieldPath, index: int) -> int:
        """Commit a new 0-based position of a column or nested field among its siblings and return the new version."""
        return self.change("CHANGE COLUMN", lambda doc: doc.move(path, index))

    def widen_column(self, path: FieldPath, type_text: str, *, annotation: Mapping[str, object] | None = None) -> int:
        """Commit a wider type of a column and record the change in `delta.typeChanges`.

        Args:
            path: The column, or a list element or map value, for example `a.element` or `m.value`.
            type_text: The new type. The builder does not check whether the protocol allows the change.
            annotation: The record to write instead. `{}` writes no record.

        Returns:
            The new version.
        """

        def widen(doc: DeltaDocument) -> None:
            doc.configuration.setdefault("delta.enableTypeWidening", "true")
            doc.widen(path, type_text, annotation)

        return self.change("CHANGE COLUMN", widen)

    def set_column_mapping(self, mode: MappingModeName) -> int:
        """Commit a column mapping mode for a table that has files, with the current names as physical names.

        Returns:
            The new version.
        """
        return self.change("SET TBLPROPERTIES", lambda doc: doc.map_columns(mode, "same"))

    def set_configuration(self, properties: Mapping[str, str | None]) -> int:
        """Commit table properties, and the features that they require.

        If in-commit timestamps are switched on, their enablement version and time are recorded (delta L35).

        Args:
            properties: The new properties. None as a value unsets a property.

        Returns:
            The new version.
        """
        version, time_ms = self.version + 1, self.log.commit_time(self.version + 1)
        return self.change("SET TBLPROPERTIES", lambda doc: doc.configure(properties, version, time_ms))

    def set_protocol(self, protocol: JsonObject) -> int:
        """Commit a protocol without checking it and return the new version."""
        self.document.protocol = dict(protocol)
        return self.commit([{"protocol": self.document.protocol}], operation="UPGRADE PROTOCOL")

    def change(self, operation: str, edit: Callable[[DeltaDocument], object], **commit_options: Any) -> int:
        """Edit the table's document and commit its metaData, and its protocol if new features are required.

        Args:
            operation: The operation in commitInfo.
            edit: A function that changes the document in place.
            commit_options: As for `commit`.

        Returns:
            The new version.
        """
        edit(self.document)
        upgraded = self.document.require(self.document.needed_features())
        actions = [{"protocol": self.document.protocol}] if upgraded else []
        return self.commit(
            [*actions, {"metaData": self.document.metadata_action()}], operation=operation, **commit_options
        )

    def checkpoint(
        self,
        kind: CheckpointForm = "classic",
        version: int | None = None,
        *,
        hint: bool = True,
        **checkpoint_options: Any,
    ) -> WrittenCheckpoint:
        """Write a checkpoint.

        Args:
            kind: The form of the checkpoint.
            version: The version. None for the newest.
            hint: If true, write `_last_checkpoint`.
            checkpoint_options: Fields of `harness.writing.delta.checkpoint.CheckpointOptions`, for example `parts=3` or
                `sidecars=2`.

        Returns:
            The files of the checkpoint.

        Raises:
            RequestError: The kind is a V2 checkpoint, and the protocol lacks the feature v2Checkpoint.
        """
        version = self.version if version is None else version
        options = CheckpointOptions(kind=kind, **checkpoint_options)
        state = self.log.state(version)
        written = write_checkpoint(self.log.directory, version, state, self.log.commit_time(version), options)
        if hint:
            self.write_last_checkpoint(hint_text(written.hint))
        return written

    def compact(self, first: int, last: int) -> Path:
        """Write the log compaction file of the versions `first` to `last`, both included, and return its path."""
        return self.log.write_compaction(first, last)

    def write_checksum(self, version: int | None = None, **extra: object) -> Path:
        """Write a version checksum file.

        Args:
            version: The version. None for the newest.
            extra: Fields to add or replace.

        Returns:
            The path of the file.
        """
        return self.log.write_checksum(self.version if version is None else version, extra)

    def move(self, directory: Path) -> None:
        """Move the table to another directory without changing the log."""
        shutil.move(self.directory, directory)
        for handle in self.handles:
            if handle.file.is_relative_to(self.directory):
                handle.file = directory / handle.file.relative_to(self.directory)
        self.directory = directory
        self.log.directory = directory / "_delta_log"

    def vacuum(self) -> None:
        """Delete the data files that are not in the newest version."""
        for file in {h.file for h in self.handles} - {h.file for h in self.live_files}:
            file.unlink(missing_ok=True)

    def expire_log(self, before: int) -> None:
        """Delete the commit files of all versions below `before`. Checkpoints stay."""
        for version in range(before):
            self.log.commit_path(version).unlink(missing_ok=True)

    def actions(self, version: int | None = None) -> list[JsonObject]:
        """Return the actions of a commit as they were written. None for the newest commit."""
        return self.log.commits[self.version if version is None else version]

    def edit_commit(self, version: int, change: Callable[[list[JsonObject]], object]) -> None:
        """Change the actions of a commit in place and rewrite its file with the same modification time."""
        self.log.edit(version, change)

    def edit_last_checkpoint(self, change: Callable[[JsonObject], object]) -> None:
        """Change the content of `_last_checkpoint` in place and rewrite the file.

        The checksum inside is not updated.
        """
        change(hint := self.log.hint())
        self.write_last_checkpoint(json_text(hint))

    def write_last_checkpoint(self, text: str) -> None:
        """Write a text as `_last_checkpoint`."""
        self.log.write_text(self.log.hint_path, text, self.log.commit_time(self.version))
