"""A builder of Iceberg tables of format version 1, 2 and 3 on the local disk, for tests and demos.

    t = IcebergTable.create(tmp_path / "orders", {"id": "long not null", "region": "string", "price": "decimal(9, 2)"},
                            format_version=2, partition_spec=[("region", "identity")])
    f = t.write_data([{"id": 1, "region": "eu", "price": "9.99"}, {"id": 2, "region": "eu", "price": None}])
    t.append(f)                                                 # a snapshot
    d = t.write_position_deletes([(f, 0)])                      # nothing committed yet
    e = t.write_equality_deletes(["id"], [{"id": 2}], partition={"region": "eu"})
    t.commit(add=[d, e])                                        # one more; both rows are dead now
    t.add_column("note", "string", initial_default="none")
    t.commit(add=[t.write_data([{"id": 3, "region": "us"}])], remove=[f], operation="overwrite")
    t.edit_metadata(lambda doc: doc.pop("last-updated-ms"))     # and now it is broken

What it writes follows the specification; unusual and broken tables are made by editing what it wrote (`edit_metadata`,
`edit_manifest_list`, `edit_manifest`, `IcebergFile.data_file`, `corrupt`, `truncate`). Times, ids and names are
counted, not drawn, so the same calls write the same table. It shares no code with the reader.
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
from harness.metadata.model.schema import Field, Schema
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

# Exact as doubles: a reader that takes ids through doubles is found out by the scenario of larger ids alone.
FIRST_SNAPSHOT_ID = 7_000_000_000_000_001


class IcebergTable:
    """A table being built. Make one with `create`; every change of the table writes a new metadata file."""

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
        """A new empty table in `directory`.

        schema: a schema with ids, or {name: type text} (see `types.parse_type`), whose ids are counted from 1.
        partition_spec: (source column, transform) or (source column, transform, partition field name).
        recorded_location: the location that all paths in the metadata start with; None: `directory` itself.
        metadata_names: `v1.metadata.json` with a version hint, or `00000-<uuid>.metadata.json` without.
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
        """The snapshots as in the metadata, oldest first."""
        return tuple(copy.deepcopy(self.document.doc.get("snapshots", [])))

    @property
    def snapshot_id(self) -> int | None:
        """The current snapshot of `main`; None for an empty table."""
        return self.document.ref("main")

    @property
    def spec_id(self) -> int:
        """The id of the default partition spec."""
        return int(self.document.doc["default-spec-id"])

    def file_of(self, recorded: str) -> Path:
        """The place of a file with this recorded path on disk."""
        return self.store.file_of(recorded)

    # -- files; nothing is committed ----------------------------------------------------------------------------------

    def write_data(
        self,
        rows: Sequence[Mapping[str, object]] | pa.Table,
        *,
        partition: Mapping[str, object] | None = None,
        spec_id: int | None = None,
        schema: Schema | None = None,
        columns: Sequence[str] | None = None,
        names: Mapping[str, str] | None = None,
        format: FileFormat = "parquet",
        path: str | None = None,
        **file_options: Any,
    ) -> IcebergFile:
        """Write a data file.

        rows: mappings by column name, values as Python has them or as internal values; or an Arrow table, written as
        it is. partition: natural values by partition field name; None: computed from the rows, which must agree.
        schema: write under this schema in place of the current one (an older one, or other physical types).
        columns: only these top-level columns go into the file, in this order. names: other physical names, by path.
        path: relative to the location, or absolute; None: counted. more: fields of FileOptions, such as
        `field_ids=False`, `row_group_size=10`, `compression="snappy"`, `statistics=[]`.
        """
        schema = self.schema if schema is None else schema
        spec_id = self.spec_id if spec_id is None else spec_id
        content = rows if isinstance(rows, pa.Table) else stored_rows(schema, rows)
        values = partition_of(self.document, partition, spec_id, schema, content)
        fields = schema.fields if columns is None else tuple(evolution.find_field(schema, c) for c in columns)
        if names is not None:
            fields = evolution.rename_fields(fields, {evolution.find_field(schema, k).id: v for k, v in names.items()})
        return self._write_file(
            fields, content, spec_id, values, IcebergFileOptions(format=format, **file_options), path, 0
        )

    def write_partitioned(self, rows: Sequence[Mapping[str, object]], **file_options: Any) -> tuple[IcebergFile, ...]:
        """Write one data file per partition of the rows, in the order in which the partitions first occur."""
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
        """Write a position delete file of (data file or recorded path, 0-based row).

        referenced: sets `referenced_data_file`. partition, spec_id: None: those of the data files. rows: copies of the
        deleted rows, in the order of `positions` (which then is kept). more: fields of FileOptions.
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
        """Write an equality delete file: rows that agree in `columns` (names or ids) with one of `rows` are dead.

        partition: None: computed from the rows, where the keys hold the partition's source columns. A global delete
        needs `spec_id` of an unpartitioned spec. schema: names and types of another time. more: fields of FileOptions.
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
        """Write one Puffin file with a deletion vector for each data file: 0-based positions of its dead rows."""
        recorded = self._new_path(path, "", "-deletes.puffin")
        return files.write_vectors(self.file_of(recorded), recorded, positions)

    # -- commits ------------------------------------------------------------------------------------------------------

    def append(self, *handles: IcebergFile) -> int:
        """Commit added files to `main`; the new snapshot's id."""
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
        """Commit a snapshot; its id.

        remove: DELETED entries in rewritten manifests, whose other entries become EXISTING.
        operation: None: append for data only, delete for deletes only, else overwrite. branch: None stages the snapshot
        (no ref moves). manifests: `merge` rewrites the carried manifests into one per spec and content.
        sequence_number: the *data* sequence number of added data files, as compaction sets it.

        Raises:
            RequestError: a removed file is not live, or the branch does not exist.
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
        listed = self.manifest_list(parent).records if parent is not None else []
        carried = commits.carried_manifests(context, listed, {h.key for h in remove}, manifests)
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

    # -- table changes; each writes a metadata file -------------------------------------------------------------------

    def add_column(
        self,
        name: str,
        type_text: str,
        *,
        initial_default: object = None,
        write_default: object = None,
        parent: FieldPath | None = None,
    ) -> int:
        """Add a column at the end, or a field to the struct at `parent`; its field id.

        initial_default: natural value of the rows that exist already. write_default: None: the same.
        """
        type_, required = parse_type(type_text)
        ids = count(self.document.doc["last-column-id"] + 1)
        (field,) = with_fresh_ids((Field(id=0, name=name, type=type_, required=required),), ids)
        field = replace(field, initial_default=stored_value(field.type, initial_default))
        written = initial_default if write_default is None else write_default
        if written is not None:
            self.document.write_defaults[field.id] = default_json(field.type, stored_value(field.type, written))
        self.set_schema(evolution.add(self.schema, parent, field))
        return field.id

    def drop_column(self, path: FieldPath) -> None:
        """Drop a column or a nested field."""
        self.set_schema(evolution.drop(self.schema, path))

    def rename_column(self, path: FieldPath, name: str) -> None:
        """Rename a column or a nested field; its id stays."""
        self.set_schema(evolution.change(self.schema, path, lambda f: replace(f, name=name)))

    def widen_column(self, path: FieldPath, type_text: str) -> None:
        """Give a column another primitive type; whether that is a legal promotion is not checked."""
        self.set_schema(evolution.change(self.schema, path, lambda f: replace(f, type=parse_type(type_text)[0])))

    def make_optional(self, path: FieldPath) -> None:
        """Let a required column hold nulls."""
        self.set_schema(evolution.change(self.schema, path, lambda f: replace(f, required=False)))

    def move_column(self, path: FieldPath, index: int) -> None:
        """Move a column or nested field to a 0-based place among its siblings."""
        self.set_schema(evolution.move(self.schema, path, index))

    def set_schema(self, schema: Schema) -> None:
        """Make any schema the current one, under a new schema id."""
        self.document.set_schema(schema)
        self._save()

    def set_partition_spec(self, entries: Sequence[SpecEntry]) -> int:
        """Make this the default partition spec; its id."""
        self.document.set_spec(entries)
        self._save()
        return self.spec_id

    def set_properties(self, **properties: str) -> None:
        """Set table properties; `_` in a name stands for itself, so use `**{"a.b": "c"}` for dotted ones."""
        self.document.doc["properties"].update(properties)
        self._save()

    def create_tag(self, name: str, snapshot_id: int | None = None) -> None:
        """Tag a snapshot; None: the current one of `main`."""
        self.set_ref(name, snapshot_id, "tag")

    def create_branch(self, name: str, snapshot_id: int | None = None) -> None:
        """Start a branch at a snapshot; None: the current one of `main`."""
        self.set_ref(name, snapshot_id, "branch")

    def set_ref(self, name: str, snapshot_id: int | None, kind: Literal["branch", "tag"]) -> None:
        """Point a branch or tag, new or old, at a snapshot; `main` too, which is a rollback."""
        target = self.snapshot_id if snapshot_id is None else snapshot_id
        if target is None:
            raise RequestError(f"Cannot set {name}: the table has no snapshot yet; commit one first")
        self.document.set_ref(name, target, kind, self.store.now_ms())
        self._save()

    def upgrade(self, version: int) -> None:
        """Raise the format version; what is written stays as it is."""
        self.document.upgrade(version)
        self._save()

    def expire(self, snapshot_id: int) -> None:
        """Remove a snapshot that no ref points to; its files stay on disk."""
        self.document.expire(snapshot_id)
        self._save()

    # -- unusual and broken tables ------------------------------------------------------------------------------------

    def edit_metadata(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the current metadata document in place and write its file again, under the same name."""
        change(self.document.doc)
        self.store.rewrite_version(self.document.doc)

    def manifest_list(self, snapshot_id: int | None = None) -> AvroDocument:
        """The manifest list of a snapshot; None: the current one of `main`."""
        return self.store.load(self._manifest_list_path(snapshot_id))

    def manifests(self, snapshot_id: int | None = None) -> dict[str, AvroDocument]:
        """The manifests of a snapshot by recorded path, in list order."""
        paths = [m["manifest_path"] for m in self.manifest_list(snapshot_id).records]
        return {path: self.store.load(path) for path in paths}

    def edit_manifest_list(self, change: Callable[[AvroDocument], object], snapshot_id: int | None = None) -> None:
        """Change the manifest list of a snapshot (records, schema, header, codec) and write its file again."""
        self.store.edit(self._manifest_list_path(snapshot_id), change)

    def edit_manifest(self, target: IcebergFile | str, change: Callable[[AvroDocument], object]) -> None:
        """Change the manifests of the current snapshot that list a file, or the one with this recorded path.

        Lists that record the manifest's length record the new one, as its writer would have done.
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

    # -- inside -------------------------------------------------------------------------------------------------------

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
        wanted = self.snapshot_id if snapshot_id is None else snapshot_id
        if wanted is None:
            raise RequestError("The table has no snapshot yet; commit one first")
        return str(self.document.snapshot(wanted)["manifest-list"])

    def _save(self) -> None:
        self.store.save_version(self.document.doc)
