"""The files, deletes, and conditions of a plan that a server made.

`parse_plan` reads the answers of a server. `file_document` writes a file in the form of a server's answer.

Spec: Iceberg, open-api/rest-catalog-open-api.yaml, `FileScanTask` and `ContentFile`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from harness.errors import CorruptDeleteError, HarnessError, StorageError, UnsupportedError
from harness.metadata.files.documents import short_repr
from harness.metadata.iceberg.manifests import FILE_FORMATS, Content, DataFile, encrypted
from harness.metadata.iceberg.model import PartitionSpec, TableMetadata
from harness.metadata.iceberg.server.protocol import PlanAnswer
from harness.metadata.iceberg.server.values import parse_single_value, single_value
from harness.metadata.iceberg.transforms import Void
from harness.metadata.iceberg.values import decode_bound, partition_types, read_schema_first
from harness.metadata.model import schema as dt
from harness.storage.gate import is_possible_name
from harness.storage.paths import RecordedPath
from harness.storage.records import dataclass

COUNTS = ("value-counts", "null-value-counts", "nan-value-counts")
BOUNDS = ("lower-bounds", "upper-bounds")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """A data file to read.

    Attributes:
        file: The file. It has no statistics: `statistics` holds them.
        deletes: Indexes into `ServerPlan.deletes` of the deletes that apply to the file, without repetition.
        residual: The condition that rows must still satisfy according to the server, in Iceberg's JSON. None if the
            server states no condition.
        statistics: The counts and bounds of the file as the server sent them: `value-counts`, `null-value-counts`,
            `nan-value-counts`, `lower-bounds`, and `upper-bounds`. `task_statistics` decodes them.
        sequence_number: The data sequence number, or None. Only some servers send it, and only for files with row ids.
    """

    file: DataFile
    deletes: tuple[int, ...] = ()
    residual: Any = field(default=None, hash=False)
    statistics: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    sequence_number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """A plan that a server made.

    Attributes:
        tasks: The data files, in the order of the server. A file occurs twice if the server lists it twice.
        deletes: The delete files and deletion vectors. A delete that several answers list occurs once.
    """

    tasks: tuple[FileTask, ...] = field(repr=False)
    deletes: tuple[DataFile, ...] = field(repr=False)


def parse_plan(
    answer: PlanAnswer, metadata: TableMetadata, schema: dt.Schema, *, catalog: str, table: str
) -> ServerPlan:
    """Return the files, deletes, and conditions in the answers of a server. Unknown keys are ignored.

    Args:
        answer: The answers.
        metadata: The metadata of the table.
        schema: The schema of the read.
        catalog: The name of the catalog, for messages.
        table: The table, for messages.

    Raises:
        StorageError: An answer violates the specification (cause `CatalogAnswer`).
        CorruptDeleteError: A data file has the deletion vector of another file, or two deletion vectors.
        EncryptedTableError: A file is encrypted.
        UnsupportedError: The format of a file is unknown.

    Spec: Iceberg, open-api/rest-catalog-open-api.yaml, `FileScanTask` (rules iceberg 2.19, 2.20, 4.5, 4.21).
    """
    plan = parse_tasks(answer, metadata, schema, catalog=catalog, table=table)
    try:
        _check_vectors(plan, catalog)
    except HarnessError as error:
        error.within(table=table)
        raise
    return plan


def parse_tasks(
    answer: PlanAnswer, metadata: TableMetadata, schema: dt.Schema, *, catalog: str, table: str
) -> ServerPlan:
    """Return a plan like `parse_plan`, but do not check which data files its deletion vectors belong to.

    See `parse_plan` for the arguments and the other errors.
    """
    parser = _PlanParser(metadata, read_schema_first(metadata.schemas, schema), catalog)
    try:
        for page in answer.pages:
            parser.add_page(page)
    except RecursionError as error:
        raise parser.error("a value is nested too deeply").within(table=table) from error
    except HarnessError as error:
        error.within(table=table)
        raise
    return ServerPlan(tasks=tuple(parser.tasks), deletes=tuple(parser.deletes))


def _check_vectors(plan: ServerPlan, catalog: str) -> None:
    """Raise CorruptDeleteError if a data file has the deletion vector of another file, or two deletion vectors."""
    vectors = {place: delete for place, delete in enumerate(plan.deletes) if delete.format == "puffin"}
    target_of: dict[int, str] = {}
    vector_of: dict[str, int] = {}
    for task in plan.tasks if vectors else ():
        path = task.file.path
        for place in task.deletes:
            if place not in vectors:
                continue
            vector = vectors[place]
            target = vector.referenced_data_file or target_of.setdefault(place, path)
            if target != path:
                message = (
                    f"Catalog {catalog} returned a plan that gives {path} the deletion vector of {target}, at offset "
                    f"{vector.content_offset}. Read the table with planning='client'"
                )
                raise CorruptDeleteError(message, cause="CorruptDeletionVector", file=vector.path, rule="iceberg 4.17")
            other = vectors[vector_of.setdefault(path, place)]
            if other is not vector:
                message = (
                    f"Catalog {catalog} returned a plan with two deletion vectors for {path}, in {other.path} at "
                    f"{other.content_offset} and in {vector.path} at {vector.content_offset}, expected one. "
                    "Read the table with planning='client'"
                )
                raise CorruptDeleteError(message, cause="MultipleDVs", file=vector.path, rule="iceberg 4.21")


_DELETES = {"position-deletes": Content.POSITION_DELETES, "equality-deletes": Content.EQUALITY_DELETES}
_MOST = 2**63 - 1
_EMPTY: Mapping[str, Any] = {}


@dataclass(slots=True)
class _PlanParser:
    """A parser of the answers of one plan.

    Attributes:
        metadata: The metadata of the table.
        schemas: The schemas with the types of partition values. The schema of the read comes first.
        catalog: The name of the catalog.
        tasks: The tasks so far.
        deletes: The deletes so far.
    """

    metadata: TableMetadata
    schemas: Sequence[dt.Schema]
    catalog: str
    tasks: list[FileTask] = field(default_factory=list)
    deletes: list[DataFile] = field(default_factory=list)
    _places: dict[tuple[str, int | None, int | None], int] = field(default_factory=dict)
    _partitions: dict[tuple[int, str], Mapping[int, Any]] = field(default_factory=dict)

    def add_page(self, page: Mapping[str, Any]) -> None:
        """Add the tasks and deletes of one answer."""
        places = [self._place(self._delete_file(item)) for item in self._items(page, "delete-files")]
        tasks, size = self.tasks, len(places)
        for task in self._items(page, "file-scan-tasks"):
            document = self._object(task.get("data-file"), "data-file")
            file = self._file(document, is_data=True)
            references = task.get("delete-file-references")
            deletes = () if references is None else self._referenced(references, places, size, file.path)
            statistics = {key: document[key] for key in (*COUNTS, *BOUNDS) if key in document}
            tasks.append(
                FileTask(
                    file=file,
                    deletes=deletes,
                    residual=task.get("residual-filter"),
                    statistics=statistics or _EMPTY,
                    sequence_number=self._count(document, "data-sequence-number", file.path),
                )
            )

    def error(self, problem: str, *, file: str | None = None, field: str | None = None) -> StorageError:
        """Return the error for an answer that violates the specification."""
        message = f"Catalog {self.catalog} returned an invalid plan: {problem}. Read the table with planning='client'"
        return StorageError(message, cause="CatalogAnswer", file=file, field=field)

    def _items(self, page: Mapping[str, Any], key: str) -> Iterable[Mapping[str, Any]]:
        items = page.get(key)
        if items is None:
            return ()
        if type(items) is not list:
            raise self.error(f"got {short_repr(items)}, expected a list", field=key)
        return (self._object(item, key) for item in items)

    def _object(self, item: Any, key: str) -> Mapping[str, Any]:
        if type(item) is not dict:
            raise self.error(f"got {short_repr(item)}, expected an object", field=key)
        return item

    def _referenced(self, references: Any, places: Sequence[int], size: int, path: str) -> tuple[int, ...]:
        """Return the places in `deletes` of the deletes that a task refers to."""
        if type(references) is not list:
            problem = f"got {short_repr(references)}, expected a list"
            raise self.error(problem, file=path, field="delete-file-references")
        for index in references:
            if type(index) is not int or not 0 <= index < size:
                problem = f"got the index {short_repr(index)}, but the answer has {size} delete files"
                raise self.error(problem, file=path, field="delete-file-references")
        return tuple(dict.fromkeys([places[index] for index in references]))

    def _place(self, delete: DataFile) -> int:
        """Return the place of a delete in `deletes`, and add it if it is new."""
        key = (delete.path, delete.content_offset, delete.content_size)
        place = self._places.setdefault(key, len(self.deletes))
        if place == len(self.deletes):
            self.deletes.append(delete)
        elif self.deletes[place] != delete:
            raise self.error("it describes the same delete file in two ways", file=delete.path, field="delete-files")
        return place

    def _file(self, document: Mapping[str, Any], *, is_data: bool) -> DataFile:
        """Return the file that an object describes, without statistics."""
        get = document.get
        path = self._path(get("file-path"), "file-path", None)
        content = self._content(get("content"), path, is_data=is_data)
        if get("key-metadata"):
            raise encrypted(path)
        spec_id: Any = get("spec-id")
        size, record_count = get("file-size-in-bytes"), get("record-count")
        # The checks are inlined for speed, because a plan may have 100,000 files.
        if record_count is not None and (type(record_count) is not int or record_count > _MOST):
            raise self._invalid_count(record_count, "record-count", path)
        if size is not None and (type(size) is not int or not 0 <= size <= _MOST):
            raise self._invalid_count(size, "file-size-in-bytes", path)
        equality_ids = split_offsets = referenced = offset = length = None
        if is_data:
            first_row_id = self._count(document, "first-row-id", path)
        else:
            first_row_id = None
            equality_ids = self._integers(document, "equality-ids", path)
            offset = self._count(document, "content-offset", path)
            length = self._count(document, "content-size-in-bytes", path)
            referenced = get("referenced-data-file")
            if referenced is not None:
                referenced = self._path(referenced, "referenced-data-file", path)
        if "split-offsets" in document:
            split_offsets = self._integers(document, "split-offsets", path)
        return DataFile(
            content=content,
            path=RecordedPath(path),
            format=self._format(get("file-format"), content, path),
            spec_id=spec_id,
            partition=self._partition(spec_id, get("partition"), path),
            record_count=None if record_count is None or record_count < 0 else record_count,  # iceberg 2.21
            size=size,
            split_offsets=split_offsets,
            equality_ids=equality_ids,
            sort_order_id=self._count(document, "sort-order-id", path),
            first_row_id=first_row_id,
            referenced_data_file=referenced,
            content_offset=offset,
            content_size=length,
        )

    def _path(self, path: Any, key: str, file: str | None) -> str:
        # JSON can contain half of a surrogate pair, but a path in a manifest cannot.
        if type(path) is not str or not path or not is_possible_name(path):
            raise self.error(f"got {short_repr(path)}, expected the path of a file", file=file, field=key)
        return path

    def _delete_file(self, document: Mapping[str, Any]) -> DataFile:
        """Return the delete file that an object describes."""
        file = self._file(document, is_data=False)
        is_vector = file.format == "puffin"
        if (file.content_offset is None) != (file.content_size is None) or (is_vector and not file.content_size):
            problem = f"it has offset {file.content_offset} and size {file.content_size}, expected both"
            raise self.error(f"{problem} of a deletion vector", file=file.path, field="content-offset")
        if file.content is Content.EQUALITY_DELETES and not file.equality_ids:
            problem = "an equality delete file has no equality ids, so it is unknown which rows it deletes"
            raise self.error(problem, file=file.path, field="equality-ids")
        least = 3 if is_vector else 2
        if self.metadata.format_version < least:
            problem = f"the table has format version {self.metadata.format_version}, which has no such deletes"
            raise self.error(problem, file=file.path, field="delete-files")
        return file

    def _content(self, content: Any, path: str, *, is_data: bool) -> Content:
        # Java wrote the names of constants, for example POSITION_DELETES, before version 1.11.
        text = content.lower().replace("_", "-") if type(content) is str else ""
        if is_data and (content is None or text == "data"):
            return Content.DATA
        if is_data or text not in _DELETES:
            expected = "data" if is_data else " or ".join(_DELETES)
            raise self.error(f"got content {short_repr(content)}, expected {expected}", file=path, field="content")
        return _DELETES[text]

    def _format(self, format_: Any, content: Content, path: str) -> str:
        text = format_.lower() if type(format_) is str else format_
        if type(text) is str and text in FILE_FORMATS and (text != "puffin" or content is Content.POSITION_DELETES):
            return text
        kind = content.name.lower().replace("_", " ")
        raise UnsupportedError(
            f"Cannot read {path}: format {short_repr(format_)} is not supported for {kind}",
            cause="UnsupportedFormat",
            field="file-format",
            rule="iceberg 2.20",
        )

    def _count(self, document: Mapping[str, Any], key: str, path: str) -> int | None:
        value = document.get(key)
        if value is not None and (type(value) is not int or not 0 <= value <= _MOST):
            raise self._invalid_count(value, key, path)
        return value

    def _invalid_count(self, value: Any, key: str, path: str) -> StorageError:
        return self.error(f"got {short_repr(value)}, expected an integer from 0 to {_MOST}", file=path, field=key)

    def _integers(self, document: Mapping[str, Any], key: str, path: str) -> tuple[int, ...] | None:
        values = document.get(key)
        if values is None:
            return None
        if type(values) is not list or not all(type(value) is int and 0 <= value <= _MOST for value in values):
            raise self.error(f"got {short_repr(values)}, expected a list of integers", file=path, field=key)
        return tuple(values)

    def _partition(self, spec_id: Any, partition: Any, path: str) -> Mapping[int, Any]:
        """Return a partition tuple. Files in one partition share the object."""
        if type(spec_id) is not int or spec_id not in self.metadata.specs:
            problem = f"the table has no partition spec {short_repr(spec_id)}, only {sorted(self.metadata.specs)}"
            raise self.error(problem, file=path, field="spec-id")
        # The text of a tuple distinguishes 1, 1.0, and true, which are equal in Python, and -0.0 from 0.0.
        key = (spec_id, repr(partition))
        values = self._partitions.get(key)
        if values is None:
            values = self._partitions[key] = self._convert(self.metadata.specs[spec_id], partition, path)
        return values

    def _convert(self, spec: PartitionSpec, partition: Any, path: str) -> Mapping[int, Any]:
        if type(partition) is dict:  # Java wrote an object by field id, without nulls, before version 1.11
            by_key = {str(part.field_id): part for part in spec.fields}
            unknown = next((key for key in partition if key not in by_key), None)
            if unknown is not None:
                problem = f"partition spec {spec.id} has no field {short_repr(unknown)}"
                raise self.error(problem, file=path, field="partition")
            partition = [partition.get(key) for key in by_key]
        elif partition is None and not spec.fields:
            partition = []
        if type(partition) is not list or len(partition) != len(spec.fields):
            problem = f"got the partition {short_repr(partition)}, expected a list of {len(spec.fields)} values"
            raise self.error(problem, file=path, field="partition")
        types = partition_types(spec, self.schemas)
        values: dict[int, Any] = {}
        for part, value in zip(spec.fields, partition, strict=True):
            type_ = types[part.field_id]
            try:
                if isinstance(part.transform, Void):
                    values[part.field_id] = None
                elif isinstance(type_, dt.OpaqueType):  # values of an unknown transform still separate partitions
                    values[part.field_id] = value
                else:
                    values[part.field_id] = parse_single_value(value, type_)
            except ValueError as error:
                problem = f"got {short_repr(value)} for partition field {part.name!r}, expected {error}"
                raise self.error(problem, file=path, field="partition") from error
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatistics:
    """Counts and bounds of a file by field id.

    Attributes:
        value_counts: Numbers of values, with nulls and NaN.
        null_value_counts: Numbers of nulls.
        nan_value_counts: Numbers of NaN.
        lower_bounds: Lower bounds as internal values.
        upper_bounds: Upper bounds as internal values.
    """

    value_counts: Mapping[int, int] = field(hash=False)
    null_value_counts: Mapping[int, int] = field(hash=False)
    nan_value_counts: Mapping[int, int] = field(hash=False)
    lower_bounds: Mapping[int, Any] = field(hash=False)
    upper_bounds: Mapping[int, Any] = field(hash=False)


def task_statistics(task: FileTask, fields: Iterable[dt.Field]) -> TaskStatistics:
    """Return the decoded statistics of a task's file. Bounds that `decode_bound` cannot use are left out.

    By the specification, a bound has the JSON form of its type. Servers that use Iceberg for Java send the hexadecimal
    digits of encoded bounds instead. If all bounds of a file belong to strings and decimals and are valid in both
    forms, the more likely form is used.

    Args:
        task: The task.
        fields: The fields to decode. Other fields are left out.

    Raises:
        StorageError: The statistics violate the specification (cause `CatalogAnswer`).
    """
    types = {each.id: each.type for each in fields}
    maps = {key: _field_map(task, key, types) for key in (*COUNTS, *BOUNDS)}
    for key in COUNTS:
        for id_, count in maps[key].items():
            if type(count) is not int or count < 0:
                raise _invalid_statistics(task, key, f"got {short_repr(count)} for field {id_}, expected a count")
    bounds = [(id_, value) for key in BOUNDS for id_, value in maps[key].items()]
    encoded = _are_encoded([(types[id_], value) for id_, value in bounds])
    decoded: list[dict[int, Any]] = []
    for key in BOUNDS:
        values = {}
        for id_, value in maps[key].items():
            try:
                data = parse_single_value(value, dt.BinaryType() if encoded else types[id_])
            except ValueError as error:
                problem = f"got {short_repr(value)} for field {id_}, expected {error}"
                raise _invalid_statistics(task, key, problem) from error
            values[id_] = decode_bound(types[id_], data) if encoded and data is not None else data
        decoded.append({id_: value for id_, value in values.items() if value is not None and value == value})
    return TaskStatistics(
        value_counts=maps["value-counts"],
        null_value_counts=maps["null-value-counts"],
        nan_value_counts=maps["nan-value-counts"],
        lower_bounds=decoded[0],
        upper_bounds=decoded[1],
    )


def _invalid_statistics(task: FileTask, key: str, problem: str) -> StorageError:
    message = f"The catalog returned invalid statistics: {problem}"
    return StorageError(message, cause="CatalogAnswer", file=task.file.path, field=key)


def _field_map(task: FileTask, key: str, types: Mapping[int, dt.Type]) -> dict[int, Any]:
    """Return one of the file's statistics as values by field id."""
    document = task.statistics.get(key)
    if document is None:
        return {}
    keys, values = (document.get("keys"), document.get("values")) if type(document) is dict else (None, None)
    if type(keys) is not list or type(values) is not list or len(keys) != len(values):
        problem = f"got {short_repr(document)}, expected lists of keys and values with the same length"
        raise _invalid_statistics(task, key, problem)
    if not all(type(id_) is int for id_ in keys):
        raise _invalid_statistics(task, key, f"got the keys {short_repr(keys)}, expected field ids")
    return {id_: value for id_, value in zip(keys, values, strict=True) if id_ in types}


_HEXADECIMAL = re.compile(r"(?:[0-9A-F]{2})*")


def _are_encoded(bounds: Sequence[tuple[dt.Type, Any]]) -> bool:
    """Return whether the bounds of a file are hexadecimal digits of encoded bounds."""
    if not all(type(value) is str and _HEXADECIMAL.fullmatch(value) for _, value in bounds):
        return False
    if any(not isinstance(type_, dt.StringType | dt.DecimalType) for type_, _ in bounds):
        return True  # the JSON forms of other types are numbers, or texts with other characters, or the same digits
    texts = [decode_bound(type_, bytes.fromhex(value)) for type_, value in bounds if isinstance(type_, dt.StringType)]
    if texts:
        return all(text is not None and text.isprintable() for text in texts)
    return not all(value.isdecimal() for _, value in bounds)


def file_document(
    file: DataFile,
    metadata: TableMetadata,
    schemas: Sequence[dt.Schema],
    *,
    statistics: Collection[int] | bool = False,
) -> dict[str, Any]:
    """Return the JSON object for a data or delete file in the answer of a server.

    Args:
        file: The file.
        metadata: The metadata of the table.
        schemas: The schemas with the types of columns. The schema of the read comes first.
        statistics: Ids of the fields whose counts and bounds are included. True for all fields of `schemas`. Only data
            files have counts and bounds.
    """
    spec = metadata.specs[file.spec_id]
    types = partition_types(spec, schemas)
    document: dict[str, Any] = {
        "content": file.content.name.lower().replace("_", "-"),
        "file-path": file.path,
        "file-format": file.format,
        "spec-id": file.spec_id,
        "partition": [_partition_json(file.partition.get(id_), type_) for id_, type_ in types.items()],
        "file-size-in-bytes": file.size,
        "record-count": file.record_count,
        "split-offsets": None if file.split_offsets is None else list(file.split_offsets),
        "sort-order-id": file.sort_order_id,
        "first-row-id": file.first_row_id,
        "equality-ids": None if file.equality_ids is None else list(file.equality_ids),
        "referenced-data-file": file.referenced_data_file,
        "content-offset": file.content_offset,
        "content-size-in-bytes": file.content_size,
    }
    if file.content is Content.DATA and statistics is not False:
        document |= _statistics_document(file, schemas, statistics)
    return {key: value for key, value in document.items() if value is not None}


def _partition_json(value: dt.CellValue, type_: dt.Type) -> Any:
    return value if isinstance(type_, dt.OpaqueType) else single_value(value, type_)


def _statistics_document(file: DataFile, schemas: Sequence[dt.Schema], ids: Collection[int] | bool) -> dict[str, Any]:
    types = {each.id: each.type for schema in reversed(schemas) for _, each in schema.walk()}
    wanted = types.keys() if ids is True else types.keys() & set(ids or ())

    def of_fields(values: Mapping[int, Any] | None) -> dict[str, Any] | None:
        chosen = {id_: value for id_, value in sorted((values or {}).items()) if id_ in wanted and value is not None}
        return {"keys": list(chosen), "values": list(chosen.values())} if chosen else None

    def of_bounds(bounds: Mapping[int, bytes] | None) -> dict[str, Any] | None:
        decoded = {id_: decode_bound(types[id_], data) for id_, data in (bounds or {}).items() if id_ in wanted}
        return of_fields({id_: single_value(value, types[id_]) for id_, value in decoded.items()})

    return {
        "column-sizes": of_fields(file.column_sizes),
        "value-counts": of_fields(file.value_counts),
        "null-value-counts": of_fields(file.null_value_counts),
        "nan-value-counts": of_fields(file.nan_value_counts),
        "lower-bounds": of_bounds(file.lower_bounds),
        "upper-bounds": of_bounds(file.upper_bounds),
    }
