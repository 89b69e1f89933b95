"""A builder of Iceberg tables of format versions 1, 2, and 3 on the local disk, for tests and demos.

    t = IcebergTable.create(tmp_path / "orders", {"id": "long not null", "region": "string", "price": "decimal(9, 2)"},
                            format_version=2, partition_spec=[("region", "identity")])
    f = t.write_data([{"id": 1, "region": "eu", "price": "9.99"}, {"id": 2, "region": "eu", "price": None}])
    t.append(f)                                                 # a snapshot
    d = t.write_position_deletes([(f, 0)])                      # nothing committed yet
    e = t.write_equality_deletes(["id"], [{"id": 2}], partition={"region": "eu"})
    t.commit(add=[d, e])                                        # another snapshot; both rows are deleted now
    t.add_column("note", "string", initial_default="none")
    t.commit(add=[t.write_data([{"id": 3, "region": "us"}])], remove=[f], operation="overwrite")
    t.edit_metadata(lambda doc: doc.pop("last-updated-ms"))     # this breaks the table

The builder follows the specification. To make unusual or broken tables, edit its output (`edit_metadata`,
`edit_manifest_list`, `edit_manifest`, `IcebergFile.data_file`, `corrupt`, `truncate`). Times, ids, and names come from
counters, so the same calls write the same table. The builder shares no code with the reader.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from harness.errors import RequestError
from harness.metadata.model.schema import METADATA, Field, Schema
from harness.writing.iceberg import commit as commits
from harness.writing.iceberg import evolution, files
from harness.writing.iceberg.avro import AvroDocument, MetadataCodec, MetadataNames, TableStore
from harness.writing.iceberg.document import SpecEntry, TableDocument, empty_document
from harness.writing.iceberg.files import (
    FileFormat,
    IcebergFile,
    IcebergFileOptions,
    base_data_file,
    stored_rows,
    write_file,
)
from harness.writing.iceberg.partitions import group_by_partition, partition_directory, partition_of
from harness.writing.iceberg.types import (
    default_json,
    parse_type,
    schema_json,
    schema_of,
    stored_value,
    with_fresh_ids,
)
from harness.writing.local_files import FieldPath, corrupt, derived_uuid, truncate

__all__ = ["IcebergFile", "IcebergFileOptions", "IcebergTable", "corrupt", "truncate"]

# This id is exact as a double. Only the scenario with larger ids detects readers that convert ids to doubles.
FIRST_SNAPSHOT_ID = 7_000_000_000_000_001


class IcebergTable:
    """An Iceberg table that is being built. Create it with `create`. Every change writes a new metadata file.

    Attributes:
        store: The writer of the table's metadata files.
        document: The current metadata.
    """

    def __init__(self, store: TableStore, document: TableDocument) -> None:
        self.store = store
        self.document = document
        self._files = 0
        self._snapshots = 0

    @classmethod
    def create(
        cls,
        directory: str | Path,
        schema: Schema | Mapping[str, str],
        *,
        format_version: int = 2,
        partition_spec: Sequence[SpecEntry] = (),
        properties: Mapping[str, str] | None = None,
        recorded_location: str | None = None,
        metadata_names: MetadataNames = "version",
        metadata_codec: MetadataCodec = "none",
    ) -> IcebergTable:
        """Create an empty table.

        Args:
            directory: The directory of the table.
            schema: A schema with ids, or a mapping of column names to type texts (see
                `harness.writing.iceberg.types.parse_type`), for which ids are counted from 1.
            format_version: 1, 2, or 3.
            partition_spec: For each partition field, (source column, transform) or (source column, transform, partition
                field name).
            properties: Table properties.
            recorded_location: The beginning of all paths in the metadata. None for `directory`.
            metadata_names: `version` for `v1.metadata.json` with a version hint, or `uuid` for
                `00000-<uuid>.metadata.json` without a hint.
            metadata_codec: The compression of metadata files.

        Returns:
            The table.
        """
        directory = Path(directory)
        location = str(directory) if recorded_location is None else recorded_location.rstrip("/")
        document = TableDocument(empty_document(format_version, str(derived_uuid(f"table {directory.name}")), location))
        document.doc["properties"].update(properties or {})
        document.set_schema(schema_of(schema))
        document.set_spec(partition_spec)
        table = cls(TableStore(directory, location, metadata_names, metadata_codec), document)
        table._save()
        return table

    @property
    def location(self) -> str:
        """The recorded location, without a slash at its end."""
        return self.store.location

    @property
    def metadata_path(self) -> Path:
        """The current metadata file on disk."""
        return self.store.metadata_path

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.document.schema

    @property
    def snapshots(self) -> tuple[dict[str, Any], ...]:
        """Copies of the snapshots in the metadata, oldest first."""
        return tuple(copy.deepcopy(self.document.doc.get("snapshots", [])))

    @property
    def snapshot_id(self) -> int | None:
        """The current snapshot of `main`. None for an empty table."""
        return self.document.ref("main")

    @property
    def spec_id(self) -> int:
        """The id of the default partition spec."""
        return int(self.document.doc["default-spec-id"])

    def file_of(self, recorded: str) -> Path:
        """Return the path on disk of a file with a recorded path."""
        return self.store.file_of(recorded)

    def write_data(
        self,
        rows: Sequence[Mapping[str, object]] | pa.Table,
        *,
        partition: Mapping[str, object] | None = None,
        spec_id: int | None = None,
        schema: Schema | None = None,
        columns: Sequence[str] | None = None,
        names: Mapping[str, str] | None = None,
        row_ids: Sequence[int | None] | None = None,
        format: FileFormat = "parquet",
        path: str | None = None,
        **file_options: Any,
    ) -> IcebergFile:
        """Write a data file without committing it.

        Args:
            rows: Mappings by column name, with Python values or internal values; or an Arrow table, which is written
                unchanged.
            partition: Python values by partition field name. None to compute them from the rows, which must all be in
                one partition.
            spec_id: The id of the partition spec. None for the default spec.
            schema: The schema to write under, for example an older one or one with other physical types. None for the
                current schema.
            columns: The top-level columns to write, in this order. None for all.
            names: Names in the file, by column path. Other columns keep the names in the schema.
            row_ids: The row ids that the file stores, with None for an inherited one. None for a file without row ids,
                and if `rows` is an Arrow table.
            format: The file format.
            path: The path of the file, absolute or relative to the location. None for a counted name in the partition's
                directory.
            file_options: Fields of `IcebergFileOptions`, for example `field_ids=False`, `row_group_size=10`,
                `compression="snappy"`, or `statistics=[]`.

        Returns:
            A handle to commit.

        Raises:
            RequestError: A value does not fit its type, or the rows belong to several partitions.
        """
        schema = self.schema if schema is None else schema
        spec_id = self.spec_id if spec_id is None else spec_id
        content = rows if isinstance(rows, pa.Table) else stored_rows(schema, rows)
        values = partition_of(self.document, partition, spec_id, schema, content)
        fields = schema.fields if columns is None else tuple(evolution.find_field(schema, c) for c in columns)
        if names is not None:
            fields = evolution.rename_fields(fields, {evolution.find_field(schema, k).id: v for k, v in names.items()})
        if row_ids is not None:
            row_id = METADATA["_row_id"]
            fields = (*fields, row_id)
            content = [row | {row_id.id: number} for row, number in zip(content, row_ids, strict=True)]
        return self._write_file(
            fields, content, spec_id, values, IcebergFileOptions(format=format, **file_options), path, 0
        )

    def write_partitioned(self, rows: Sequence[Mapping[str, object]], **file_options: Any) -> tuple[IcebergFile, ...]:
        """Write one data file per partition of the rows without committing them.

        Args:
            rows: Mappings by column name, as for `write_data`.
            file_options: As for `write_data`.

        Returns:
            The handles, one per partition, in the order of the partitions' first rows.
        """
        groups = group_by_partition(self.document, self.spec_id, self.schema, rows)
        return tuple(self.write_data(group, **file_options) for group in groups)

    def write_position_deletes(
        self,
        positions: Iterable[tuple[IcebergFile | str, int]],
        *,
        referenced: IcebergFile | str | None = None,
        partition: Mapping[str, object] | None = None,
        spec_id: int | None = None,
        rows: Sequence[Mapping[str, object]] | None = None,
        ordered: Literal["sorted", "as given"] = "sorted",
        format: FileFormat = "parquet",
        path: str | None = None,
        **file_options: Any,
    ) -> IcebergFile:
        """Write a position delete file without committing it.

        Args:
            positions: Pairs of a data file (a handle or a recorded path) and the 0-based position of a deleted row.
            referenced: The data file for `referenced_data_file`. None for no such entry.
            partition: Python values by partition field name. None for the partition of the data files.
            spec_id: The id of the partition spec. None for the spec of the data files.
            rows: Copies of the deleted rows, in the order of `positions`, which then is not sorted. None for no copies.
            ordered: `sorted` to sort by path and position, as the specification requires, or `as given`.
            format: The file format.
            path: As for `write_data`.
            file_options: Fields of `IcebergFileOptions`.

        Returns:
            A handle to commit.

        Raises:
            RequestError: The partition cannot be determined from the data files.
        """
        pairs = list(positions) if ordered == "as given" or rows is not None else files.sorted_positions(positions)
        if partition is None and spec_id is None:
            targets = [target for target, _ in pairs]
            spec_id, values = files.shared_partition(self.document, self.spec_id, targets)
        else:
            spec_id = self.spec_id if spec_id is None else spec_id
            values = partition_of(self.document, partition or {}, spec_id, self.schema, [])
        fields = files.position_columns(None if rows is None else self.schema)
        content = files.position_rows(pairs, None if rows is None else stored_rows(self.schema, rows))
        handle = self._write_file(
            fields, content, spec_id, values, IcebergFileOptions(format=format, **file_options), path, 1
        )
        if referenced is not None:
            target = referenced if isinstance(referenced, str) else referenced.path
            handle.data_file["referenced_data_file"] = target
        return handle

    def write_equality_deletes(
        self,
        columns: Sequence[str | int],
        rows: Sequence[Mapping[str, object]],
        *,
        partition: Mapping[str, object] | None = None,
        spec_id: int | None = None,
        schema: Schema | None = None,
        extra_columns: Sequence[str | int] = (),
        format: FileFormat = "parquet",
        path: str | None = None,
        **file_options: Any,
    ) -> IcebergFile:
        """Write an equality delete file without committing it.

        It deletes the rows whose values in `columns` equal the values of one of `rows`.

        Args:
            columns: Names or field ids of the columns to compare.
            rows: The keys, as mappings by column name.
            partition: Python values by partition field name. None to compute them from the rows, if these contain the
                source columns of the partition.
            spec_id: The id of the partition spec. None for the default spec. Pass the id of an unpartitioned spec for a
                global delete.
            schema: The schema of the keys, for example an older one. None for the current schema.
            extra_columns: Names or field ids of further columns to write, which are not compared.
            format: The file format.
            path: As for `write_data`.
            file_options: Fields of `IcebergFileOptions`.

        Returns:
            A handle to commit.

        Raises:
            RequestError: A value does not fit its type, or the partition cannot be determined.
        """
        schema = self.schema if schema is None else schema
        spec_id = self.spec_id if spec_id is None else spec_id
        ids, fields = files.equality_columns(schema, columns, extra_columns)
        content = stored_rows(replace(schema, fields=fields), rows)
        values = partition_of(self.document, partition, spec_id, replace(schema, fields=fields), content)
        handle = self._write_file(
            fields, content, spec_id, values, IcebergFileOptions(format=format, **file_options), path, 2
        )
        handle.data_file["equality_ids"] = list(ids)
        return handle

    def write_deletion_vectors(
        self, positions: Mapping[IcebergFile, Iterable[int]], *, path: str | None = None
    ) -> tuple[IcebergFile, ...]:
        """Write one Puffin file with a deletion vector for each data file, without committing it.

        Args:
            positions: For each data file, the 0-based positions of its deleted rows.
            path: As for `write_data`.

        Returns:
            A handle for each deletion vector.
        """
        recorded = self._new_path(path, "", "-deletes.puffin")
        return files.write_vectors(self.file_of(recorded), recorded, positions)

    def append(self, *handles: IcebergFile) -> int:
        """Commit added files to `main` and return the id of the new snapshot."""
        return self.commit(add=handles)

    def commit(
        self,
        *,
        add: Sequence[IcebergFile] = (),
        remove: Sequence[IcebergFile] = (),
        operation: str | None = None,
        branch: str | None = "main",
        manifests: Literal["keep", "merge"] = "keep",
        sequence_number: int | None = None,
        snapshot_id: int | None = None,
        timestamp_ms: int | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> int:
        """Commit a snapshot.

        Args:
            add: Files to add.
            remove: Files to remove. Their manifests are rewritten: these files become DELETED entries, the other files
                EXISTING entries.
            operation: The operation in the summary. None for `append` if only data files are added, `delete` if only
                delete files are added, and `overwrite` otherwise.
            branch: The branch to move. None for a staged snapshot, which no branch points to.
            manifests: `keep` to keep the unchanged manifests of the parent, or `merge` to rewrite them into one per
                spec and content.
            sequence_number: The data sequence number of added data files, as a compaction sets it. None for the
                inherited number.
            snapshot_id: The id of the snapshot. None for a counted id.
            timestamp_ms: The time in milliseconds since 1970-01-01 UTC. None for a counted time.
            summary: Further entries of the summary.

        Returns:
            The id of the new snapshot.

        Raises:
            RequestError: A removed file is not live, or the branch does not exist.
        """
        parent = self.document.parent_of(branch)
        snapshot_id = FIRST_SNAPSHOT_ID + self._snapshots if snapshot_id is None else snapshot_id
        self._snapshots += 1
        document = self.document
        context = commits.CommitContext(
            version=document.version,
            snapshot_id=snapshot_id,
            parent_id=parent,
            sequence_number=document.doc.get("last-sequence-number", -1) + 1,
            next_row_id=document.doc.get("next-row-id"),
            schema_json=schema_json(document.schema, document.write_defaults),
            partition_fields={i: document.partition_fields(i) for i in document.specs},
            spec_json={i: document.spec_json(i) for i in document.specs},
            store=self.store.store_manifest,
            load=self.store.load,
        )
        parent_manifests = self.manifest_list(parent).records if parent is not None else []
        carried = commits.carried_manifests(context, parent_manifests, {h.key for h in remove}, manifests)
        entries = [*commits.new_manifests(context, add, sequence_number), *carried]
        listing, assigned = commits.manifest_list(context, entries)
        operation = commits.operation_of(add, remove) if operation is None else operation
        snapshot = commits.snapshot_json(
            context,
            timestamp_ms=self.store.now_ms() if timestamp_ms is None else timestamp_ms,
            summary={**commits.summary_of(operation, add, remove), **(summary or {})},
            manifest_list=self.store.store_list(listing, snapshot_id),
            assigned_rows=assigned,
        )
        self.document.add_snapshot(snapshot, branch)
        self._save()
        return snapshot_id

    def add_column(
        self,
        name: str,
        type_text: str,
        *,
        initial_default: object = None,
        write_default: object = None,
        parent: FieldPath | None = None,
    ) -> int:
        """Add a column at the end of the schema, or a field at the end of a struct.

        Args:
            name: The name of the column or field.
            type_text: The type as text.
            initial_default: The Python value of rows that already exist. None for null.
            write_default: The Python value for later writers. None for `initial_default`.
            parent: The path of the struct. None for a top-level column.

        Returns:
            The field id.
        """
        type_, required = parse_type(type_text)
        ids = count(self.document.doc["last-column-id"] + 1)
        (field,) = with_fresh_ids((Field(id=0, name=name, type=type_, required=required),), ids)
        field = replace(field, initial_default=stored_value(field.type, initial_default))
        default = initial_default if write_default is None else write_default
        if default is not None:
            self.document.write_defaults[field.id] = default_json(field.type, stored_value(field.type, default))
        self.set_schema(evolution.add(self.schema, parent, field))
        return field.id

    def drop_column(self, path: FieldPath) -> None:
        """Drop a column or a nested field."""
        self.set_schema(evolution.drop(self.schema, path))

    def rename_column(self, path: FieldPath, name: str) -> None:
        """Rename a column or a nested field. Its id stays."""
        self.set_schema(evolution.change(self.schema, path, lambda f: replace(f, name=name)))

    def widen_column(self, path: FieldPath, type_text: str) -> None:
        """Change the type of a column to another primitive type.

        The builder does not check whether the specification allows the promotion.
        """
        self.set_schema(evolution.change(self.schema, path, lambda f: replace(f, type=parse_type(type_text)[0])))

    def make_optional(self, path: FieldPath) -> None:
        """Make a required column optional."""
        self.set_schema(evolution.change(self.schema, path, lambda f: replace(f, required=False)))

    def move_column(self, path: FieldPath, index: int) -> None:
        """Move a column or nested field to a 0-based position among its siblings."""
        self.set_schema(evolution.move(self.schema, path, index))

    def set_schema(self, schema: Schema) -> None:
        """Make a schema the current one, under a new schema id."""
        self.document.set_schema(schema)
        self._save()

    def set_partition_spec(self, entries: Sequence[SpecEntry]) -> int:
        """Make a partition spec the default one and return its id.

        Args:
            entries: As `partition_spec` of `create`.
        """
        self.document.set_spec(entries)
        self._save()
        return self.spec_id

    def set_properties(self, **properties: str) -> None:
        """Set table properties, for example `set_properties(**{"write.format.default": "orc"})`."""
        self.document.doc["properties"].update(properties)
        self._save()

    def create_tag(self, name: str, snapshot_id: int | None = None) -> None:
        """Create a tag for a snapshot. None for the current snapshot of `main`."""
        self.set_ref(name, snapshot_id, "tag")

    def create_branch(self, name: str, snapshot_id: int | None = None) -> None:
        """Create a branch at a snapshot. None for the current snapshot of `main`."""
        self.set_ref(name, snapshot_id, "branch")

    def set_ref(self, name: str, snapshot_id: int | None, kind: Literal["branch", "tag"]) -> None:
        """Point a new or existing branch or tag at a snapshot. Moving `main` is a rollback.

        Args:
            name: The name of the branch or tag.
            snapshot_id: The snapshot. None for the current snapshot of `main`.
            kind: `branch` or `tag`.

        Raises:
            RequestError: The table has no such snapshot.
        """
        target = self.snapshot_id if snapshot_id is None else snapshot_id
        if target is None:
            raise RequestError(f"Cannot set {name}: the table has no snapshot yet; commit one first")
        self.document.set_ref(name, target, kind, self.store.now_ms())
        self._save()

    def upgrade(self, version: int) -> None:
        """Raise the format version without rewriting files."""
        self.document.upgrade(version)
        self._save()

    def expire(self, snapshot_id: int) -> None:
        """Remove a snapshot without a branch or tag from the metadata. Its files stay on disk.

        Raises:
            RequestError: There is no such snapshot, or a branch or tag points to it.
        """
        self.document.expire(snapshot_id)
        self._save()

    def edit_metadata(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the current metadata document in place and rewrite its file under the same name."""
        change(self.document.doc)
        self.store.rewrite_version(self.document.doc)

    def manifest_list(self, snapshot_id: int | None = None) -> AvroDocument:
        """Return the manifest list of a snapshot. None for the current snapshot of `main`."""
        return self.store.load(self._manifest_list_path(snapshot_id))

    def manifests(self, snapshot_id: int | None = None) -> dict[str, AvroDocument]:
        """Return the manifests of a snapshot by recorded path, in the order of the manifest list."""
        paths = [m["manifest_path"] for m in self.manifest_list(snapshot_id).records]
        return {path: self.store.load(path) for path in paths}

    def edit_manifest_list(self, change: Callable[[AvroDocument], object], snapshot_id: int | None = None) -> None:
        """Change the manifest list of a snapshot and rewrite its file.

        Args:
            change: A function that edits the records, schema, header, or codec in place.
            snapshot_id: The snapshot. None for the current snapshot of `main`.
        """
        self.store.edit(self._manifest_list_path(snapshot_id), change)

    def edit_manifest(self, target: IcebergFile | str, change: Callable[[AvroDocument], object]) -> None:
        """Change manifests of the current snapshot and rewrite their files.

        The manifest list is updated with the new lengths of the manifests, as a real writer would do.

        Args:
            target: A file whose manifests are changed, or the recorded path of a manifest.
            change: A function that edits a manifest in place.
        """
        lengths = {}
        for path, document in self.manifests().items():
            keys = [commits.entry_key(e) for e in document.records]
            if path == target or (isinstance(target, IcebergFile) and target.key in keys):
                self.store.edit(path, change)
                lengths[path] = self.file_of(path).stat().st_size

        def update_lengths(document: AvroDocument) -> None:
            for record in document.records:
                if "manifest_length" in record and record.get("manifest_path") in lengths:
                    record["manifest_length"] = lengths[record["manifest_path"]]

        self.edit_manifest_list(update_lengths)

    def _write_file(
        self,
        fields: tuple[Field, ...],
        rows: object,
        spec_id: int,
        partition: dict[str, Any],
        options: IcebergFileOptions,
        path: str | None,
        content: int,
    ) -> IcebergFile:
        directory = partition_directory(self.document, spec_id, partition)
        recorded = self._new_path(path, directory, f"{'-deletes' if content else ''}.{options.format}")
        file = self.file_of(recorded)
        facts = write_file(file, fields, rows, options)
        return IcebergFile(file, spec_id, {**base_data_file(content, recorded, partition), **facts})

    def _new_path(self, path: str | None, directory: str, ending: str) -> str:
        self._files += 1
        return self.store.recorded_path(f"data/{directory}{self._files:05d}{ending}" if path is None else path)

    def _manifest_list_path(self, snapshot_id: int | None) -> str:
        target_id = self.snapshot_id if snapshot_id is None else snapshot_id
        if target_id is None:
            raise RequestError("The table has no snapshot yet; commit one first")
        return str(self.document.snapshot(target_id)["manifest-list"])

    def _save(self) -> None:
        self.store.save_version(self.document.doc)
