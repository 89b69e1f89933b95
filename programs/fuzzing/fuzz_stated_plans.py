"""The rows that the answers of a planning server state, by the oracle.

The answers are interpreted here a second time, and more strictly: only what the specification defines is accepted. The
oracle then reads the files and applies the deletes that the tasks refer to.

Spec: Iceberg, open-api/rest-catalog-open-api.yaml.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from fuzz_subjects import SubjectRead

from harness import errors
from harness.suite.oracle import types as dt
from harness.suite.oracle.iceberg import (
    IcebergRead,
    _ApplicableDeletes,
    _equality_delete,
    _mismatch,
    _name_mapping,
    _PositionReader,
)
from harness.suite.oracle.iceberg_changes import INSERT, _at, _range
from harness.suite.oracle.iceberg_manifests import DATA, EQUALITY_DELETES, POSITION_DELETES, LiveFile, partition_key
from harness.suite.oracle.iceberg_metadata import (
    MetadataValues,
    Spec,
    _default_value,
    read_metadata,
    select_snapshot,
    value_type,
)
from harness.suite.oracle.paths import Files, PathPrefixes, local_path
from harness.suite.oracle.reading import rows_of
from harness.suite.oracle.scan import ChangeRange, Request
from harness.suite.oracle.types import SNAPSHOT_CHANGES, Schema
from harness.suite.oracle_engine import _condition

Ask: TypeAlias = Callable[[str], tuple[int, bytes]]
"""A function of a call that returns the status and the content of its answer."""
METADATA = "GET table all"
_CONTENTS = {"data": DATA, "position-deletes": POSITION_DELETES, "equality-deletes": EQUALITY_DELETES}
_MOST_ANSWERS = 200


def stated_rows(ask: Ask, read: SubjectRead, prefixes: Mapping[str, Path]) -> pa.Table:
    """Return the rows that answers state.

    Args:
        ask: The answers.
        read: The read.
        prefixes: The directories of the table by the prefix of recorded paths.

    Raises:
        HarnessError: The answers are invalid, or a file cannot be read.
        OutsideTableError: A file is not in the table.
    """
    document = json.dumps(_object(_object(_answer(ask, METADATA)).get("metadata"))).encode()
    where = None if read.where is None else _condition(read.where)
    request = Request(location="table", **read.at, columns=read.columns, where=where)
    if read.changes is not None:
        request = _at(replace(request, changes=ChangeRange(**asdict(read.changes))), read.changes.to)
    snapshot, metadata = select_snapshot(read_metadata(document, file="table"), request)
    files = Files()
    paths = PathPrefixes(tuple((old, str(new)) for old, new in prefixes.items()), files)
    table = IcebergRead(request, files, metadata, snapshot, paths, _name_mapping(metadata))
    plan = partial(_StatedPlan, metadata, paths, tuple(prefixes.values()))
    schema = metadata.current_schema
    if request.changes is not None:
        columns, condition, _ = table.columns(Schema(fields=(*schema.fields, *SNAPSHOT_CHANGES.values())))
        return rows_of(table.scan(columns, condition, tuple(_appended(table, request.changes, ask, plan))))
    columns, condition, used = table.columns(schema)
    if "_last_updated_sequence_number" in used:
        raise errors.UnsupportedError("Plans of a server have no sequence numbers")
    stated = plan()
    if snapshot is not None:
        stated.add_pages(_pages(ask, "POST plan"))
    return rows_of(table.scan(columns, condition, stated.data_files()))


def _appended(
    table: IcebergRead, wanted: ChangeRange, ask: Ask, plan: Callable[[], "_StatedPlan"]
) -> Iterator[LiveFile]:
    """Yield the files that each snapshot of a range appended, without deletes."""
    if wanted.mode != "appends":
        raise errors.UnsupportedError("A server plans no other changes")
    ordinal = 0
    for snapshot in _range(table, wanted):
        if snapshot.operation == "append":
            stated = plan()
            stated.add_pages(_pages(ask, plan_call(snapshot.parent_id, snapshot.id)))
            values = dict(zip((f.id for f in SNAPSHOT_CHANGES.values()), (INSERT, ordinal, snapshot.id), strict=True))
            for file in stated.data_files():
                yield replace(file, constants={**file.constants, **values}, equality=(), positions=None)
        ordinal += snapshot.operation != "replace"


def plan_call(start: int | None, end: int | None) -> str:
    """Return the name of the call that plans a snapshot, or a range of snapshots if it has a start."""
    return "POST plan" if start is None else f"POST plan {start}-{end}"


def _pages(ask: Ask, call: str) -> Iterator[Mapping[str, Any]]:
    """Yield the answers of a plan that have tasks."""
    answer = _object(_answer(ask, call))
    plan_id = answer.get("plan-id")
    for _ in range(_MOST_ANSWERS):
        if answer.get("status") != "submitted":
            break
        answer = _object(_answer(ask, f"GET plan/{plan_id}"))
    if answer.get("status") != "completed":
        raise _invalid("the plan is not completed")
    waiting, seen = [answer], set[str]()
    while waiting:
        page = waiting.pop(0)
        yield page
        for task in _list(page, "plan-tasks"):
            if task in seen or len(seen) > _MOST_ANSWERS:
                raise _invalid("an endless plan")
            seen.add(task)
            waiting.append(_object(_answer(ask, f"POST tasks {task}")))


def _answer(ask: Ask, call: str) -> object:
    status, content = ask(call)
    if not 200 <= status < 300:
        raise _invalid(f"{call} has status {status}")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"{call} is no JSON") from error


@dataclass
class _StatedPlan:
    """The files of a plan.

    Attributes:
        metadata: The metadata of the table.
        paths: The directories of recorded paths.
        directories: The directories that contain all files.
        data: The data files, each with its deletes.
        unused: Deletes that no data file refers to.
    """

    metadata: MetadataValues
    paths: PathPrefixes
    directories: Sequence[Path]
    data: list[tuple[LiveFile, _ApplicableDeletes]] = field(default_factory=list)
    unused: set[tuple[object, ...]] = field(default_factory=set)
    used: set[tuple[object, ...]] = field(default_factory=set)

    def add_pages(self, pages: Iterable[Mapping[str, Any]]) -> None:
        """Add the files of all answers."""
        for page in pages:
            self._add(page)

    def _add(self, page: Mapping[str, Any]) -> None:
        deletes = [self._file(_object(item), is_data=False) for item in _list(page, "delete-files")]
        for item in _list(page, "file-scan-tasks"):
            task = _object(item)
            data, references = self._file(_object(task.get("data-file")), is_data=True), []
            for index in _list(task, "delete-file-references"):
                if type(index) is not int or not 0 <= index < len(deletes):
                    raise _invalid(f"there is no delete {index!r:.80}")
                references.append(deletes[index])
            self.data.append((data, self._applied(data, references)))
            self.used |= {_identity(delete) for delete in references}
        self.unused |= {_identity(delete) for delete in deletes}

    def data_files(self) -> tuple[LiveFile, ...]:
        """Return the data files."""
        paths = [data.path for data, _ in self.data]
        if len(set(paths)) < len(paths):
            raise _invalid("a data file is in the plan twice")
        if self.unused - self.used:
            raise _invalid("a delete applies to no data file")
        vectors = [_identity(deletes.vector) for _, deletes in self.data if deletes.vector is not None]
        if len(set(vectors)) < len(vectors):
            raise _invalid("two data files have one deletion vector")
        positions = _PositionReader(self.data, self.paths)
        return tuple(
            replace(
                data,
                equality=tuple(_equality_delete(delete, self.metadata) for delete in deletes.equality),
                positions=partial(positions.deleted_positions, data, deletes),
            )
            for data, deletes in self.data
        )

    def _applied(self, data: LiveFile, references: Sequence[LiveFile]) -> _ApplicableDeletes:
        distinct = list({_identity(delete): delete for delete in references}.values())
        equality = [delete for delete in distinct if delete.content == EQUALITY_DELETES]
        vectors = [delete for delete in distinct if delete.format == "puffin"]
        positions = [delete for delete in distinct if delete not in equality and delete not in vectors]
        if len(vectors) > 1 or any(vector.referenced not in (None, data.path) for vector in vectors):
            raise _invalid("a data file has two deletion vectors, or that of another file")
        for delete in distinct:
            is_global = delete.content == EQUALITY_DELETES and delete.spec.is_unpartitioned
            if not is_global and partition_key(delete) != partition_key(data):
                raise _mismatch(delete, data, "iceberg 4.4")
        positions = [delete for delete in positions if delete.referenced in (None, data.path)]
        vector = vectors[0] if vectors else None
        return _ApplicableDeletes(vector, () if vector else tuple(positions), (), tuple(equality))

    def _file(self, document: Mapping[str, Any], *, is_data: bool) -> LiveFile:
        path, spec = _text(document, "file-path"), self.metadata.specs.get(document.get("spec-id", ""))
        content = document.get("content")
        content = DATA if is_data and content is None else _CONTENTS.get(str(content).lower().replace("_", "-"))
        format_ = _text(document, "file-format").lower()
        is_vector = (format_, content) == ("puffin", POSITION_DELETES)
        if spec is None or content is None or (content == DATA) is not is_data:
            raise _invalid(f"{path!r:.80} has no spec, or another content")
        if format_ not in ("parquet", "avro", "orc") and not is_vector:
            raise _invalid(f"{path!r:.80} has format {format_!r:.80}")
        if document.get("key-metadata"):
            raise errors.EncryptedTableError("Cannot read an encrypted file")
        equality_ids = _list(document, "equality-ids") if not is_data else []
        offset, length = _count(document, "content-offset"), _count(document, "content-size-in-bytes")
        version, has_place = self.metadata.version, offset is not None and length is not None
        if (is_vector and not (has_place and length)) or (not is_data and version < (3 if is_vector else 2)):
            raise _invalid(f"{path!r:.80} has no place in its file, or the table no such deletes")
        if content == EQUALITY_DELETES and not equality_ids:
            raise _invalid(f"{path!r:.80} has no equality ids")
        _count(document, "file-size-in-bytes")
        physical = self.paths.physical(path)
        if not any(Path(os.path.normpath(local_path(physical))).is_relative_to(each) for each in self.directories):
            raise errors.OutsideTableError(f"{path!r:.80} is not in the table")
        partition = self._partition(spec, document.get("partition"))
        identities = [f for f in spec.fields if f.transform == "identity" and f.source is not None]
        return LiveFile(
            manifest="",
            content=content,
            path=path,
            physical=physical,
            format=format_,
            spec=spec,
            spec_id=spec.id,
            partition=partition,
            constants={f.source or 0: partition.get(f.id) for f in identities},
            record_count=_count(document, "record-count"),
            sequence_number=0,
            first_row_id=_count(document, "first-row-id") if is_data else None,
            equality_ids=tuple(equality_ids),
            referenced=None if is_data else document.get("referenced-data-file"),
            offset=offset,
            length=length,
        )

    def _partition(self, spec: Spec, values: object) -> dict[int, object]:
        if isinstance(values, dict):
            values = [values.get(str(part.id)) for part in spec.fields]
        values = [] if values is None else values
        if not isinstance(values, list) or len(values) != len(spec.fields):
            raise _invalid(f"a partition of {len(spec.fields)} values is {values!r:.80}")
        try:
            return {
                part.id: None if part.transform == "void" else _value(value, value_type(part, self.metadata))
                for part, value in zip(spec.fields, values, strict=True)
            }
        except (ValueError, TypeError, ArithmeticError) as error:
            raise _invalid(f"a partition value: {error}") from error


def _value(value: Any, type_: dt.ColumnType) -> object:
    """Return the value of a JSON value, also in the forms that only servers use."""
    match type_:
        case dt.OpaqueType():
            return value
        case dt.FloatType() if value in ("NaN", "Infinity", "-Infinity") or value != value:
            return float(value)
        case dt.DecimalType(scale=scale) if type(value) in (int, float, str):
            digits = Decimal(str(value))
            return _default_value(f"{digits.quantize(Decimal(1).scaleb(-scale)):f}", type_)
        case dt.DATE | dt.TimeType() | dt.TimestampType() if type(value) is int:
            return value
        case dt.TimestampType(utc=True) if type(value) is str and value.endswith("Z"):
            return _default_value(f"{value[:-1]}+00:00", type_)
        case _:
            return _default_value(value, type_)


def _identity(delete: LiveFile) -> tuple[object, ...]:
    return delete.path, delete.offset, delete.length


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _invalid(f"got {value!r:.80}, expected an object")
    return value


def _list(document: Mapping[str, Any], key: str) -> list[Any]:
    value = document.get(key)
    if value is not None and not isinstance(value, list):
        raise _invalid(f"{key} is {value!r:.80}")
    return value or []


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    if not isinstance(value, str) or not value:
        raise _invalid(f"{key} is {value!r:.80}")
    return value


def _count(document: Mapping[str, Any], key: str) -> int | None:
    value = document.get(key)
    if value is not None and (type(value) is not int or not 0 <= value < 2**63):
        raise _invalid(f"{key} is {value!r:.80}")
    return value


def _invalid(reason: str) -> errors.StorageError:
    return errors.StorageError(f"Invalid answers: {reason}", cause="CatalogAnswer")
