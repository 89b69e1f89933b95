"""Newline-delimited JSON actions: commits, compacted commits, and the top files of some checkpoints.

Parsing is strict because a skipped line would add or remove files silently. Every line must hold one JSON object with
one action (delta L24). Numbers never pass through floating point.
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
"""The fields of an action, unchecked, as JSON parsing returns them."""
T = TypeVar("T")

_ACTION_NAMES = frozenset(
    "add remove cdc metaData protocol txn domainMetadata commitInfo checkpointMetadata sidecar".split()  # noqa: SIM905  # shorter than a list
)
VECTOR_KEYS = ("storageType", "pathOrInlineDv", "sizeInBytes", "cardinality")
"""The keys that every deletion vector descriptor must have (delta D1)."""

_DRAIN_COUNT = 16_384  # file actions held as parsed JSON before `drain` is called
_LONG_LINE = 1 << 20  # bytes; shorter lines are parsed without a check of their size
_TYPE_NAMES = {str: "text", int: "an integer", bool: "true or false", dict: "an object", list: "a list"}


@dataclass(slots=True)
class ParsedActions:
    """The actions of one file.

    File actions stay as parsed JSON. `harness.metadata.delta.commits.file_actions` turns many of them into a table.
    """

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
        """The file's protocol action, or None if the file has none."""
        return single_value(self.protocols, "protocol", self.file)

    @property
    def only_metadata(self) -> Metadata | None:
        """The file's metaData action, or None if the file has none."""
        return single_value(self.metadata, "metaData", self.file)


def parse_actions(
    data: bytes, *, file: str, drain: Callable[[ParsedActions], None] | None = None, limits: Limits = DEFAULT
) -> ParsedActions:
    """Parse a file of newline-delimited JSON; unknown actions and fields are ignored.

    Args:
        data: The content of the file.
        file: The path of the file, for errors.
        drain: A function that moves file actions out of the parsed actions. It is called whenever many file actions
            have accumulated as JSON. None: all file actions stay in the result.
        limits: The limits on the number of actions and the length of lines.

    Raises:
        CorruptFileError: The bytes are not UTF-8, a line is not one JSON object, a line holds two actions, or an action
            lacks a required field or has a field of the wrong type. The message names the line.
        LimitError: The file has more actions, or a longer line, than `limits` allow.

    Spec: Delta, "Actions" (rules delta L24, R7).
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
    """Add the action `name` to `parsed`.

    Args:
        parsed: The actions of the file so far.
        name: The kind of the action, for example `add`.
        body: The fields of the action.
        place: Where in the file the action is, for errors.
        first: True if the action is the first one of its commit.

    Raises:
        CorruptFileError: The action lacks a field, or a field has the wrong type.
    """
    try:
        _add_action(parsed, name, body, first=first)
    except _FieldError as error:
        raise _corrupt(f"the {name} {place} {error}", parsed.file) from None


def single_value(values: Sequence[T], name: str, file: str) -> T | None:
    """Return the only value, or None if there are no values.

    Raises:
        InvalidTableError: There are several values (rule delta L25).
    """
    if len(values) > 1:
        message = (
            f"One file of the log holds {len(values)} {name} actions, expected at most one. Which of them is in "
            "force is undefined"
        )
        raise InvalidTableError(message, cause="LogCorrupt", file=file, rule="delta L25")
    return values[0] if values else None


class _FieldError(Exception):
    """An invalid field of an action. `add_action` adds the place of the action to the message."""


def _lines(data: bytes, file: str, limits: Limits) -> Iterator[tuple[int, dict[str, object]]]:
    for number, line in enumerate(io.BytesIO(data), start=1):
        if line.isspace():
            continue
        if len(line) > _LONG_LINE:
            check_document(line, file=file, limits=limits)
        try:
            value = _DECODER.decode(line.decode("utf-8"))
        # ValueError covers JSON errors, UTF-8 errors, and integers with too many digits
        except (ValueError, RecursionError) as error:
            raise _corrupt(f"line {number} is not JSON: {error}. It may be half-written", file) from error
        if not isinstance(value, dict):
            raise _corrupt(f"line {number} is not a JSON object", file)
        yield number, value


def refuse_constant(name: str) -> NoReturn:
    """Raise ValueError for NaN and infinities."""
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
    """Return the fields of a file action, after the checks that cannot be made on whole columns (delta L25)."""
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
    # A descriptor without one of its keys must not count as "no vector": its deleted rows would come back (delta D1).
    for name in VECTOR_KEYS:
        if vector.get(name) is None:
            raise _FieldError(f"has a deletionVector without {name}; write null for a file without a deletion vector")
    return body


def _text_map(value: object, name: str) -> Mapping[str, str | None]:
    if not isinstance(value, dict):
        raise _FieldError(f"has {name} that are not an object")
    for key, text in value.items():
        if text is not None and type(text) is not str:
            raise _FieldError(f"has {text!r} for {key!r} in its {name}, expected text or null")
    return value


def _commit_info(body: Body, *, first: bool) -> CommitInfo:
    """Parse a commitInfo action; fields of an unexpected type count as absent.

    Writers put anything here (delta R7).
    """

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
    # The configuration and the partition columns decide where values are read from. An action that lost one of them
    # must not be confused with an action that has none.
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
