"""Newline-delimited JSON actions: commits, compacted commits and the top files of some checkpoints.

Parsing is strict, because a line left out is a file too many or too few: every line must be one JSON object with one
action (delta L24). Numbers never pass through floating point.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, NoReturn, TypeAlias, TypeVar

from harness.errors import CorruptFileError, InvalidTableError
from harness.metadata.delta.actions import CommitInfo, DomainMetadata, Metadata, Protocol, Transaction
from harness.metadata.files.documents import check_document
from harness.storage.limits import DEFAULT, Limits, limit_error
from harness.storage.records import dataclass

Body: TypeAlias = Mapping[str, Any]
"""The fields of an action as JSON has them, unchecked."""
T = TypeVar("T")

_ACTION_NAMES = frozenset(
    "add remove cdc metaData protocol txn domainMetadata commitInfo checkpointMetadata sidecar".split()  # noqa: SIM905
)
VECTOR_KEYS = ("storageType", "pathOrInlineDv", "sizeInBytes", "cardinality")
"""Keys of every descriptor of a deletion vector (delta D1)."""

_DRAIN_COUNT = 16_384  # file actions
_LONG_LINE = 1 << 20  # bytes; shorter ones cannot hold much
_TYPE_NAMES = {str: "text", int: "an integer", bool: "true or false", dict: "an object", list: "a list"}


@dataclass(slots=True)
class ParsedActions:
    """The actions of one file. File actions stay as parsed JSON; `file_actions` turns many of them into tables."""

    file: str
    adds: list[Body] = field(default_factory=list)
    removes: list[Body] = field(default_factory=list)
    cdc: list[Body] = field(default_factory=list)
    sidecars: list[Body] = field(default_factory=list)
    checkpoint_metadata: list[Body] = field(default_factory=list)
    protocols: list[Protocol] = field(default_factory=list)
    metadata: list[Metadata] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    domains: list[DomainMetadata] = field(default_factory=list)
    info: CommitInfo | None = None

    @property
    def protocol(self) -> Protocol | None:
        """The only protocol of the file, None if there is none."""
        return single_value(self.protocols, "protocol", self.file)

    @property
    def only_metadata(self) -> Metadata | None:
        """The only metaData of the file, None if there is none."""
        return single_value(self.metadata, "metaData", self.file)


def parse_actions(
    data: bytes, *, file: str, drain: Callable[[ParsedActions], None] | None = None, limits: Limits = DEFAULT
) -> ParsedActions:
    """The actions in a file of newline-delimited JSON; unknown actions and fields are ignored (delta L24, R7).

    file: its path, for errors. drain: takes file actions away before they grow too many to be held as JSON.

    Raises:
        CorruptFileError: bytes that are not UTF-8, a line that is not one JSON object, two actions on one line, an
            action without a field that it must have, or with a field of another type. Says which line.
        LimitError: there are more actions, or a line is longer, than `limits` allow.
    """
    parsed = ParsedActions(file)
    for number, (line, action) in enumerate(_lines(data, file, limits)):
        if number >= limits.actions:
            raise limit_error("actions", f"it has more than {limits.actions:,} actions", file=file)
        names = [name for name, body in action.items() if body is not None and name in _ACTION_NAMES]
        if len(names) > 1:
            raise _corrupt(f"line {line} holds {len(names)} actions ({', '.join(names)}), expected one", file)
        for name in names:
            body = action[name]
            if not isinstance(body, dict):
                raise _corrupt(f"the {name} on line {line} is not an object", file)
            add_action(parsed, name, body, place=f"on line {line}", first=number == 0)
        if drain is not None and len(parsed.adds) + len(parsed.removes) >= _DRAIN_COUNT:
            drain(parsed)
    return parsed


def add_action(parsed: ParsedActions, name: str, body: Body, *, place: str, first: bool = False) -> None:
    """Adds the action `name` to `parsed`, or raises CorruptFileError with its place in the file, `place`."""
    try:
        _add_action(parsed, name, body, first=first)
    except _FieldError as error:
        raise _corrupt(f"the {name} {place} {error}", parsed.file) from None


def single_value(values: Sequence[T], name: str, file: str) -> T | None:
    """The only value, or None. Raises InvalidTableError for several (delta L25)."""
    if len(values) > 1:
        message = (
            f"One file of the log holds {len(values)} {name} actions, expected at most one. Which of them holds is "
            "not defined"
        )
        raise InvalidTableError(message, cause="LogCorrupt", file=file, rule="delta L25")
    return values[0] if values else None


class _FieldError(Exception):
    """A fault of an action; `add_action` adds its place."""


def _lines(data: bytes, file: str, limits: Limits) -> Iterator[tuple[int, dict[str, object]]]:
    for number, line in enumerate(io.BytesIO(data), start=1):
        if line.isspace():
            continue
        if len(line) > _LONG_LINE:
            check_document(line, file=file, limits=limits)
        try:
            value = _DECODER.decode(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:  # ValueError: JSON and UTF-8 errors, and absurdly long integers
            raise _corrupt(f"line {number} is not JSON: {error}. It may be half-written", file) from error
        if not isinstance(value, dict):
            raise _corrupt(f"line {number} is not a JSON object", file)
        yield number, value


def refuse_constant(name: str) -> NoReturn:
    """Refuses NaN and infinities (ValueError)."""
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(parse_constant=refuse_constant)


def _add_action(parsed: ParsedActions, name: str, body: Body, *, first: bool) -> None:
    match name:
        case "add":
            parsed.adds.append(_file_action(body, "partitionValues", "size"))
        case "remove":
            parsed.removes.append(_file_action(body))
        case "cdc":
            parsed.cdc.append(_file_action(body, "partitionValues", "size"))
        case "sidecar":
            parsed.sidecars.append(body)
        case "checkpointMetadata":
            parsed.checkpoint_metadata.append(body)
        case "protocol":
            parsed.protocols.append(
                Protocol(
                    min_reader_version=_required(body, "minReaderVersion", int),
                    min_writer_version=_required(body, "minWriterVersion", int),
                    reader_features=_names(body, "readerFeatures"),
                    writer_features=_names(body, "writerFeatures"),
                )
            )
        case "metaData":
            parsed.metadata.append(_metadata(body))
        case "txn":
            application, version = _required(body, "appId", str), _required(body, "version", int)
            updated = _optional(body, "lastUpdated", int)
            parsed.transactions.append(Transaction(app_id=application, version=version, last_updated_ms=updated))
        case "domainMetadata":
            domain, text = _required(body, "domain", str), _optional(body, "configuration", str) or ""
            removed = _optional(body, "removed", bool) or False
            parsed.domains.append(DomainMetadata(domain=domain, configuration=text, removed=removed))
        case "commitInfo":
            parsed.info = parsed.info or _commit_info(body, first=first)
        case _:
            raise AssertionError(name)


def _file_action(body: Body, *required: str) -> Body:
    """`body`, checked for what cannot be checked by column (delta L25)."""
    if not isinstance(body.get("path"), str):
        raise _FieldError("has no path")
    for name in required:
        if body.get(name) is None:
            raise _FieldError(f"has no {name}")
    values = body.get("partitionValues")
    if values is not None:
        _text_map(values, "partitionValues")
    vector = body.get("deletionVector")
    if vector is None:
        return body
    if not isinstance(vector, dict):
        raise _FieldError(f"has {vector!r} as deletionVector, expected an object or null")
    # A descriptor that lacks a key must not be taken for none: its rows would come back (delta D1).
    for name in VECTOR_KEYS:
        if vector.get(name) is None:
            raise _FieldError(f"has a deletionVector without {name}; write null where there is none")
    return body


def _text_map(value: object, name: str) -> Mapping[str, str | None]:
    if not isinstance(value, dict):
        raise _FieldError(f"has {name} that are not an object")
    for key, text in value.items():
        if text is not None and type(text) is not str:
            raise _FieldError(f"has {text!r} for {key!r} in its {name}, expected text or null")
    return value


def _commit_info(body: Body, *, first: bool) -> CommitInfo:
    """Fields of another type than expected count as absent: writers put anything here (delta R7)."""

    def field_of_type(name: str, type_: type[T]) -> T | None:
        value = body.get(name)
        return value if type(value) is type_ else None

    return CommitInfo(
        timestamp_ms=field_of_type("timestamp", int),
        in_commit_timestamp_ms=field_of_type("inCommitTimestamp", int),
        operation=field_of_type("operation", str),
        is_first=first,
        values=body,
    )


def _metadata(body: Body) -> Metadata:
    format_ = _optional(body, "format", dict) or {}
    # Both decide where values are read from: what lacks them by accident is not told from what has none.
    if body.get("configuration") is None:
        raise _FieldError("has no configuration")
    configuration = _text_map(body["configuration"], "configuration")
    columns = _names(body, "partitionColumns")
    if columns is None:
        raise _FieldError("has no partitionColumns")
    return Metadata(
        id=_optional(body, "id", str) or "",
        schema_string=_optional(body, "schemaString", str) or "",
        partition_columns=columns,
        configuration={key: value for key, value in configuration.items() if value is not None},
        provider=_optional(format_, "provider", str) or "parquet",
        name=_optional(body, "name", str),
        description=_optional(body, "description", str),
        created_time_ms=_optional(body, "createdTime", int),
    )


def _required(body: Body, name: str, type_: type[T]) -> T:
    value = _optional(body, name, type_)
    if value is None:
        raise _FieldError(f"has no {name}")
    return value


def _optional(body: Body, name: str, type_: type[T]) -> T | None:
    value = body.get(name)
    if value is None or type(value) is type_:
        return value
    raise _FieldError(f"has {value!r} as {name}, expected {_TYPE_NAMES[type_]}")


def _names(body: Body, name: str) -> tuple[str, ...] | None:
    values = _optional(body, name, list)
    if values is None:
        return None
    for value in values:
        if type(value) is not str:
            raise _FieldError(f"has {value!r} in its {name}, expected text")
    return tuple(values)


def _corrupt(reason: str, file: str) -> CorruptFileError:
    return CorruptFileError(f"Cannot read the log: {reason}", cause="LogCorrupt", file=file, rule="delta L24")
