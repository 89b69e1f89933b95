"""Plans as bytes, for other processes and languages: Arrow IPC streams and one JSON document.

The bytes are four Arrow IPC streams, one after the other. The first stream has no columns, and its schema has three
entries of metadata:

    harness.scan_plan   the version of this encoding: 1
    document            JSON: the attributes of `ScanPlan` that are not tables
    crc32               checksum of the document and of all bytes after the first stream, in hexadecimal digits

The other streams are the tables `ScanPlan.files`, `PositionDeletes.vectors`, and `SkippedFiles.files`.

In the document, an object with the key `is` holds the attributes of the class of harness that `is` names. Tuples are
arrays, and members of enumerations are their values. Every other object has one key: `map` (an array of pairs), `list`
(an array), `float` or `decimal` (a text), or `bytes` (hexadecimal digits).

The bytes may come from anyone. Decoding creates instances of these classes only, checks the type of every attribute,
and checks that every index is valid. It opens no file.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import zlib
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import RequestError, UnsupportedError
from harness.metadata.model.arrow_values import to_numpy
from harness.metadata.plan.deletes import VECTORS, DatedPositions, PositionDeletes, PositionFiles
from harness.metadata.plan.lifetimes import BEFORE
from harness.metadata.plan.scan_plan import BY_STATISTICS, FILES, SKIPPED, DeltaRules, ScanPlan, SkippedFiles

VERSION: Final = 1
_VERSION, _DOCUMENT, _CHECKSUM = b"harness.scan_plan", b"document", b"crc32"
_TABLES = {"files": FILES, "vectors": VECTORS, "skipped": SKIPPED}
_FORMATS = ("puffin", "bin", "inline")


def encode(plan: ScanPlan) -> bytes:
    """Return a plan as bytes."""
    streams = b"".join(_stream(table) for table in tables(plan))
    text = document(plan)
    checksum = f"{zlib.crc32(streams, zlib.crc32(text)):08x}".encode()
    metadata = {_VERSION: str(VERSION).encode(), _DOCUMENT: text, _CHECKSUM: checksum}
    return _stream(pa.schema([], metadata=metadata).empty_table()) + streams


def tables(plan: ScanPlan) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Return the three tables of a plan in the order of their streams."""
    return plan.files, plan.position_deletes.vectors, plan.skipped.files


def document(plan: ScanPlan) -> bytes:
    """Return everything in a plan except its tables, as JSON."""
    members: dict[str, Any] = {name: getattr(plan, name, None) for name in _plan_hints()}
    members |= {"deletes": plan.position_deletes.files, "sets": plan.position_deletes.sets}
    members["skipped"] = plan.skipped.partitions
    encoded = {name: _encode_value(value) for name, value in members.items()}
    return json.dumps(encoded, separators=(",", ":")).encode()


def decode(data: bytes) -> ScanPlan:
    """Decode the bytes that `encode` returned. Raises the errors of `ScanPlan.from_ipc`."""
    try:
        reader = pa.BufferReader(data)
        header = pa.ipc.open_stream(reader).read_all()
        metadata = header.schema.metadata or {}
        if _VERSION not in metadata:
            raise ValueError("it is an Arrow stream without a plan")
        if metadata[_VERSION] != str(VERSION).encode():
            raise _unknown_version(metadata[_VERSION])
        text, rest = metadata[_DOCUMENT], memoryview(data)[reader.tell() :]
        if f"{zlib.crc32(rest, zlib.crc32(text)):08x}".encode() != metadata[_CHECKSUM]:
            raise ValueError("its checksum is wrong")
        tables = {name: _table(pa.ipc.open_stream(reader).read_all(), name) for name in _TABLES}
        values = json.loads(text)
        hints = _plan_hints()
        if not isinstance(values, dict) or values.keys() != hints.keys():
            raise ValueError("its document has missing or unknown members")
        members = {name: _decode_member(values[name], hint) for name, hint in hints.items()}
        plan = _plan(members, tables)
        _check(plan)
        return plan
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, RecursionError, ArithmeticError) as error:
        reason = f"{error}" or type(error).__name__
        message = f"Cannot read the plan: {reason}. Pass the bytes that ScanPlan.to_ipc() returned"
        raise RequestError(message, cause="DamagedPlan") from error


def _unknown_version(version: bytes) -> UnsupportedError:
    message = f"Cannot read the plan: its encoding has version {version!r}, expected {VERSION}. Update harness"
    return UnsupportedError(message, cause="UnknownPlanVersion")


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _table(table: pa.Table, name: str) -> pa.Table:
    if not table.schema.equals(_TABLES[name]):
        raise ValueError(f"the table of its {name} has missing or unknown columns")
    table.validate(full=True)
    for field in _TABLES[name]:
        if not field.nullable and table.column(field.name).null_count:
            raise ValueError(f"{field.name} of its {name} is null")
    return table


def _plan(members: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> ScanPlan:
    fields = {name: value for name, value in members.items() if name not in ("deletes", "sets", "skipped")}
    deletes = PositionDeletes(files=members["deletes"], vectors=tables["vectors"], sets=members["sets"])
    skipped = SkippedFiles.from_table(tables["skipped"], members["skipped"])
    return ScanPlan(**fields, files=tables["files"], position_deletes=deletes, skipped=skipped)


# The types do not cover indexes, the columns of a union, and SQL, so these are checked here.


def _check(plan: ScanPlan) -> None:
    """Raise ValueError if a plan contradicts itself, or RequestError if its filter is not a condition on rows."""
    deletes, partitions = plan.position_deletes, len(plan.partitions)
    _check_indexes(to_numpy(plan.files.column("partition")), partitions, "partition")
    _check_indexes(to_numpy(plan.files.column("delete_set")), len(plan.delete_sets), "delete set")
    sources = deletes.vectors.num_rows + len(deletes.sets)
    _check_indexes(to_numpy(plan.files.column("positions").drop_null()), sources, "source of positions")
    _check_indexes(to_numpy(plan.skipped.files.column("partition")), len(plan.skipped.partitions), "partition")
    for delete_set in plan.delete_sets:
        _check_indexes(np.array(delete_set, np.int64), len(plan.equality_deletes), "equality delete")
    scopes = [d.partition for d in plan.equality_deletes if d.partition is not None]
    scopes += [d.partition for d in deletes.files]
    _check_indexes(np.array(scopes, np.int64), partitions, "partition")
    for source in deletes.sets:
        if isinstance(source, PositionFiles):
            _check_indexes(np.array(source.applied + source.suspects, np.int64), len(deletes.files), "delete file")
    _check_lifetimes(plan)
    decisions = to_numpy(plan.skipped.files.column("decision"))
    if ((decisions < 1) | (decisions > BY_STATISTICS)).any():
        raise ValueError("a file is skipped for an unknown reason")
    is_inline = pc.equal(deletes.vectors.column("format"), "inline")
    for name in ("physical", "offset"):
        if not deletes.vectors.column(name).is_null().equals(is_inline):
            raise ValueError(f"a deletion vector in a file lacks {name}, or an inline vector has {name}")
    if set(pc.unique(deletes.vectors.column("format")).to_pylist()) - set(_FORMATS):
        raise ValueError("a deletion vector has an unknown format")
    is_delta = isinstance(plan.rules, DeltaRules)
    if is_delta and (deletes.files or plan.equality_deletes or not plan.lookup.is_delta):
        raise ValueError("a plan of a Delta table has deletes or a lookup of Iceberg")
    if not is_delta:
        _check_sequence_numbers(plan)
    if plan.filter is not None:
        from harness.metadata.filters.parse import text_and_names  # imports sqlglot

        text_and_names(plan.filter.sql)


def _check_sequence_numbers(plan: ScanPlan) -> None:
    """Raise ValueError if only some files of an Iceberg plan have sequence numbers. A server sends none at all."""
    of_files = plan.files.column("sequence_number").is_valid().unique().to_pylist()
    numbers = [d.sequence_number for d in plan.equality_deletes]
    numbers += [d.sequence_number for d in plan.position_deletes.files]
    has_number = {*of_files, *(number is not None for number in numbers)}
    if len(has_number) > 1 or (plan.lifetimes is not None and numbers and False in has_number):
        raise ValueError("a data file or delete of an Iceberg table has no sequence number")


def _check_lifetimes(plan: ScanPlan) -> None:
    """Raise ValueError if the lifetimes of a plan contradict the rest of the plan."""
    lifetimes, deletes = plan.lifetimes, plan.position_deletes
    dated = [source for source in deletes.sets if isinstance(source, DatedPositions)]
    has_others = deletes.vectors.num_rows > 0 or len(dated) < len(deletes.sets)
    if dated if lifetimes is None else has_others:
        raise ValueError("only some of its position deletes have spans")
    if lifetimes is None:
        return
    counts = plan.files.num_rows, len(plan.equality_deletes)
    if (len(lifetimes.files), len(lifetimes.equality_deletes)) != counts:
        raise ValueError("its files or equality deletes do not have one span each")
    sources = [each for source in dated for each in source.deletes]
    indexes = [each.source for each in sources if isinstance(each.source, int)]
    indexes += [index for source in dated for index in source.suspects]
    _check_indexes(np.array(indexes, np.int64), len(deletes.files), "delete file")
    count = len(lifetimes.commits)
    for span in {*lifetimes.files, *lifetimes.equality_deletes, *(each.span for each in sources)}:
        end = count if span.removed is None else span.removed
        if not BEFORE <= span.added < end <= count or span.removed == count:
            raise ValueError(f"a span is from commit {span.added} to {span.removed}, and it has {count} commits")
    if any(key not in plan.schema.fields for key in lifetimes.keys):
        raise ValueError("its keys are not columns of the table")


def _check_indexes(values: np.ndarray[Any, Any], count: int, what: str) -> None:
    if len(values) and not 0 <= int(values.min()) <= int(values.max()) < count:
        raise ValueError(f"it refers to a {what} that it does not have")


# The document is encoded by the classes of values, and decoded by the types of attributes.


def _encode_value(value: Any) -> Any:
    cls: Any = type(value)
    match value:
        case None | bool() | int() | str():
            return value
        case enum.Enum():
            return value.value
        case float():
            return {"float": repr(value)}
        case Decimal():
            return {"decimal": str(value)}
        case bytes():
            return {"bytes": value.hex()}
        case tuple():
            return [_encode_value(part) for part in value]
        case list():
            return {"list": [_encode_value(part) for part in value]}
        case Mapping():
            return {"map": [[_encode_value(key), _encode_value(part)] for key, part in value.items()]}
        case _:
            return {"is": cls.__name__, **{name: _encode_value(getattr(value, name)) for name in _hints(cls)}}


@cache
def _plan_hints() -> Mapping[str, Any]:
    """Return the types of the members of the document."""
    hints, deletes = dict(_hints(ScanPlan)), _hints(PositionDeletes)
    hints |= {"deletes": deletes["files"], "sets": deletes["sets"], "skipped": hints["partitions"]}
    for name in ("files", "position_deletes"):
        del hints[name]
    return hints


@cache
def _hints(cls: Any) -> Mapping[str, Any]:
    """Return the types of the fields of a dataclass."""
    hints = get_type_hints(cls)
    return {member.name: hints[member.name] for member in dataclasses.fields(cls)}


def _decode_member(raw: Any, hint: Any) -> Any:
    """Decode a value of a type. Raise ValueError, KeyError, or TypeError if the value does not have the type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return _decode_value(raw)
    if origin is tuple:
        parts = _array(raw)
        types = (arguments[0],) * len(parts) if arguments[1:] == (...,) else arguments
        return tuple(_decode_member(part, type_) for part, type_ in zip(parts, types, strict=True))
    if origin is Mapping:
        pairs = [(key, value) for key, value in map(_array, _array(raw["map"]))]
        return {_decode_member(key, arguments[0]): _decode_member(value, arguments[1]) for key, value in pairs}
    if origin is Literal:
        return _one_of(raw, arguments)
    choices = arguments if origin in (Union, UnionType) else (hint,)
    choices = tuple(getattr(each, "__supertype__", each) for each in choices)  # paths are a `NewType` of str
    if isinstance(raw, dict):
        classes: dict[str, Any] = {each.__name__: each for each in choices if isinstance(each, type)}
        cls = classes[raw["is"]]  # only these classes can be created
        hints = _hints(cls)
        if raw.keys() - {"is"} != hints.keys():
            raise ValueError(f"its {cls.__name__} has missing or unknown members")
        return cls(**{name: _decode_member(raw[name], type_) for name, type_ in hints.items()})
    if type(raw) not in choices:
        for choice in choices:
            if isinstance(choice, type) and issubclass(choice, enum.Enum):
                return choice(raw)
        raise ValueError(f"its document has a value of type {type(raw).__name__}, expected {hint}")
    return raw


def _decode_value(raw: Any) -> Any:
    """Decode an internal value, see `harness.metadata.model.schema`."""
    match raw:
        case None | bool() | int() | str():
            return raw
        case list():
            return tuple(map(_decode_value, raw))
        case {"float": str(text)}:
            return float(text)
        case {"decimal": str(text)}:
            return Decimal(text)
        case {"bytes": str(text)}:
            return bytes.fromhex(text)
        case {"list": list(parts)}:
            return [_decode_value(part) for part in parts]
        case {"map": list(pairs)}:
            return {_decode_value(key): _decode_value(part) for key, part in pairs}
        case _:
            raise ValueError("its document has no internal value")


def _array(raw: Any) -> list[Any]:
    if not isinstance(raw, list):
        raise ValueError("its document has no array")
    return raw


def _one_of(raw: Any, choices: tuple[Any, ...]) -> Any:
    if raw not in choices or type(raw) is not type(choices[choices.index(raw)]):
        raise ValueError(f"its document has {raw!r}, expected one of {choices}")
    return raw
