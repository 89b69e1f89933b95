"""The score of a read: its outcome given the expected result.

For harness's own engines, types must agree, and an error must have the class and the text that the scenario requires.
For the oracle, which has its own messages, only the class must agree. For other engines, only values are compared,
whatever their Arrow types, and any refusal of a broken table is accepted unless it is a crash or a hang.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import uuid
from typing import Any

import pyarrow as pa

from harness.diff.compare import compare
from harness.diff.printing import show
from harness.diff.result import SchemaKind
from harness.diff.schemas import normal_type
from harness.errors import EngineError, HarnessError, UnsupportedError, counted
from harness.metadata.files.variant import value_text
from harness.metadata.model.arrow_values import children_of, elements_of, is_list, nested_type, to_plain, with_children
from harness.metadata.model.schema import METADATA
from harness.suite.protocol import ERROR_CLASSES, UNSUPPORTED, error_class
from harness.suite.results import Check, Outcome, ReadInfo
from harness.suite.scenarios.model import ExpectedError, ResolvedExpectation
from harness.suite.scenarios.verifying import matches_error
from harness.suite.workers import BROKEN


def convert_types(table: pa.Table, target: pa.Schema) -> tuple[pa.Table, tuple[str, ...]]:
    """Convert the table of another engine to the target types.

    UUIDs may be text in upper or lower case, and bytes may be typed as text, also inside maps, lists and structs. A map
    may be a list of structs of a key and a value, and a variant may be its two binaries. Other columns stay unchanged:
    `harness.diff` compares their values and reports what cannot be compared.

    Returns:
        The table, and a note for each changed column.
    """
    notes = []
    for number, field in enumerate(table.schema):
        if target.get_field_index(field.name) < 0 or table.schema.get_field_index(field.name) < 0:
            continue
        column = table.column(number)
        chunks = column.chunks or [pa.array([], column.type)]
        changed = pa.chunked_array([_array(chunk, target.field(field.name).type) for chunk in chunks])
        if not changed.type.equals(column.type):
            notes.append(f"{field.name} is {column.type}, read as {changed.type}")
            table = table.set_column(number, field.with_type(changed.type), changed)
    return table, tuple(notes)


def _array(array: pa.Array, target: pa.DataType) -> pa.Array:
    kind, type_ = pa.types, array.type
    if isinstance(target, pa.UuidType) and kind.is_string(normal_type(type_)):
        return _uuids(array, target)
    if kind.is_binary(target) and kind.is_string(normal_type(type_)):
        return array.cast(pa.binary())  # some engines have one type for both
    holds_pairs = is_list(type_) and kind.is_struct(type_.value_type) and type_.value_type.num_fields == 2
    if kind.is_map(target) and (kind.is_map(type_) or holds_pairs):
        return _map(array, target)
    if kind.is_struct(target) and kind.is_struct(type_):
        return _struct(array, target)
    if kind.is_string(target) and kind.is_struct(type_) and {each.name for each in type_} == {"metadata", "value"}:
        values = array.to_pylist()
        texts = [None if each is None else value_text(each["metadata"], each["value"]) for each in values]
        return pa.array(texts, pa.string())
    if is_list(target) and is_list(type_):
        elements = _array(to_plain(elements_of(array)), target.value_type)
        return with_children(array, [elements], pa.list_(elements.type))
    return array


def _uuids(array: pa.Array, target: pa.DataType) -> pa.Array:
    texts = array.to_pylist()
    try:
        values = [None if text is None else uuid.UUID(text).bytes for text in texts]
    except ValueError:
        return array  # the text is not a UUID: the comparison shows it
    return pa.ExtensionArray.from_storage(target, pa.array(values, pa.binary(16)))


def _map(array: pa.Array, target: pa.DataType) -> pa.Array:
    parts = children_of(array)
    keys, items = map(to_plain, parts if pa.types.is_map(array.type) else children_of(*parts))
    if keys.null_count:
        return array  # maps have no null keys
    changed = [_array(keys, target.key_type), _array(items, target.item_type)]
    if pa.types.is_map(array.type) and [part.type for part in changed] == [keys.type, items.type]:
        return array
    return with_children(array, changed, pa.map_(*[part.type for part in changed]))


def _struct(array: pa.Array, target: pa.DataType) -> pa.Array:
    places = [target.get_field_index(field.name) for field in array.type]
    parts = [
        part if place < 0 else _array(part, target.field(place).type)
        for part, place in zip(children_of(array), places, strict=True)
    ]
    return with_children(array, parts, nested_type(array.type, [part.type for part in parts]))


_DECLINING = re.compile(
    r"unsupported|not[- ]?implemented|\b(not|never|cannot) (yet |currently )?(be )?support", re.IGNORECASE
)
MAX_ROWS = 20
"""The number of differing rows that reports contain. All are counted."""


_MAX_COUNTED = 2**31


class Strictness(enum.Enum):
    """The strictness with which an engine's result is compared, strictest first."""

    HARNESS = "harness"
    ORACLE = "oracle"
    FOREIGN = "foreign"


def score_read(
    expectation: ResolvedExpectation,
    result: pa.Table | Exception,
    measure: Strictness,
    engine: str,
    seconds: float = 0.0,
) -> Check:
    """Return the outcome of a read from its rows or its error. `seconds` is the duration of the read."""
    check = _score(expectation, result, measure, engine)
    is_broken = isinstance(result, Exception) and _is_broken(result)  # a crash or a hang is not an answer
    is_wrong = is_broken or (measure is not Strictness.FOREIGN and check.outcome in (Outcome.FAIL, Outcome.ERROR))
    if expectation.open is not None and not is_wrong:
        words = check.message or ("as harness decided" if check.outcome is Outcome.PASS else check.outcome.value)
        message = f"open: {expectation.open}; the engine: {words}"
        check = dataclasses.replace(check, outcome=Outcome.OPEN, message=message)
    if measure is Strictness.FOREIGN and not is_broken:
        check = _apply_policy(check, expectation)
    policy = expectation.policy is not None
    read = read_text(expectation)
    return dataclasses.replace(check, number=expectation.number, read=read, seconds=seconds, policy=policy)


def _apply_policy(check: Check, expectation: ResolvedExpectation) -> Check:
    """Return the check of another engine. A different answer is not a failure if only harness's policy requires it."""
    if expectation.policy is None or check.outcome not in (Outcome.FAIL, Outcome.ERROR):
        return check
    message = f"{check.message}; harness's policy: {expectation.policy}"
    return dataclasses.replace(check, outcome=Outcome.POLICY, message=message)


def read_info(expectation: ResolvedExpectation) -> ReadInfo:
    """Return the read and its expected result for reports, with at most `MAX_ROWS` rows."""
    expected = expectation.expected
    info = ReadInfo(
        number=expectation.number,
        read=read_text(expectation),
        demand=expectation.demand if expectation.open is None else "open",
        why=expectation.open or expectation.policy,
        error=_expected_error_text(expected) if isinstance(expected, ExpectedError) else None,
    )
    if not isinstance(expected, pa.Table):
        return info
    places = range(min(expected.num_rows, MAX_ROWS))
    rows = tuple(tuple(show(column, place) for column in expected.columns) for place in places)
    return dataclasses.replace(info, columns=tuple(expected.column_names), rows=rows, count=expected.num_rows)


def needs_intact_copy(expectation: ResolvedExpectation) -> bool:
    """Return whether a refusal only counts if the reader can read the intact copy.

    A reader that refuses the intact copy too would also refuse a table without damage.
    """
    expected = expectation.expected
    return isinstance(expected, ExpectedError) and error_class(expected.kind, expected.cause) != UNSUPPORTED


def confirm_refusal(check: Check, intact_check: Check) -> Check:
    """Return the check of a correct refusal, or UNSUPPORTED if the check of the intact copy is not PASS."""
    if intact_check.outcome is Outcome.PASS:
        return check
    message = f"the intact copy is not read correctly either: {intact_check.message}"
    return dataclasses.replace(check, outcome=Outcome.UNSUPPORTED, message=message)


def score_count(check: Check | None, expectation: ResolvedExpectation, count: int, engine: str) -> Check:
    """Return the outcome of an engine's own count, combined with the check of its rows if it read any.

    An engine may count by the metadata alone and ignore deletes that it applies to rows.
    """
    # so that a wrong count does not allocate any number of rows
    null_rows = pa.table({"": pa.nulls(min(max(count, 0), _MAX_COUNTED))})
    check = score_read(expectation, null_rows, Strictness.FOREIGN, engine) if check is None else check
    if not isinstance(expectation.expected, pa.Table) or expectation.open is not None:
        return check
    rows = expectation.expected.num_rows
    if count == rows:
        message = f"counted {count:,}" if check is None else check.message
        return dataclasses.replace(check, outcome=Outcome.PASS, message=message, comparison=None, wrong_rows=False)
    message = f"count(*) is {count:,}, expected {rows:,}"
    wrong = dataclasses.replace(check, outcome=Outcome.FAIL, message=message, comparison=None, wrong_rows=True)
    return _apply_policy(wrong, expectation)


def read_text(expectation: ResolvedExpectation) -> str:
    """Return a description of the read, for example `columns id, name at version 3 where id > 1`."""
    columns = "all columns" if expectation.columns is None else f"columns {', '.join(expectation.columns)}"
    at = [f" at {name} {value}" for name, value in expectation.at.arguments().items()]
    if expectation.at.changes is not None:
        at = [f" of the {expectation.at.changes.text}"]
    where = "".join(f" {name} {value}" for name, value in expectation.plan_arguments().items() if name != "columns")
    opening, catalog = expectation.opening, ""
    if "max_version" in opening:
        catalog = f", as the catalog says: {len(opening['ratified'])} ratified up to version {opening['max_version']}"
    elif opening:
        catalog = ", of what is published"
    return f"{columns}{''.join(at)}{where}{catalog}"


def _check(outcome: Outcome, message: str | None = None, **details: Any) -> Check:
    """Return a check whose number and text `score_read` sets."""
    return Check(number=0, read="", outcome=outcome, message=message, **details)


def _score(expectation: ResolvedExpectation, result: pa.Table | Exception, measure: Strictness, engine: str) -> Check:
    expected = expectation.expected
    if isinstance(result, Exception):
        if isinstance(expected, ExpectedError):
            return _score_error(expected, result, measure)
        return _score_unexpected_error(expectation, result, measure)
    rows = counted(result.num_rows, "row")
    if isinstance(expected, ExpectedError):
        return _check(Outcome.FAIL, f"returned {rows}, expected {_expected_error_text(expected)}")
    return (
        _check(Outcome.PASS, f"returned {rows}") if expected is None else _score_rows(expected, result, measure, engine)
    )


def _expected_error_text(expected: ExpectedError) -> str:
    return expected.kind if expected.match is None else f"{expected.kind} with {expected.match!r}"


def error_text(error: Exception) -> str:
    """Return an error as one line with its class.

    For a worker's engine, it is the class that was raised in the worker.
    """
    name = error.cause if isinstance(error, EngineError) else type(error).__name__
    text = error.message if isinstance(error, EngineError) else str(error)
    return " ".join(f"{name}: {text}".split())


def _score_unexpected_error(expectation: ResolvedExpectation, error: Exception, measure: Strictness) -> Check:
    """Return the check of an error if rows are expected."""
    if _is_declined(error, measure):
        return _check(Outcome.UNSUPPORTED, error.message if isinstance(error, HarnessError) else str(error))
    # No format defines metadata columns or requires readers to have them.
    words = {*(expectation.columns or ()), *re.findall(r"\w+", expectation.where or "")}
    if measure is Strictness.FOREIGN and not _is_broken(error) and (names := sorted(words & METADATA.keys())):
        return _check(Outcome.UNSUPPORTED, f"metadata columns {', '.join(names)}: {error_text(error)}")
    return _check(Outcome.ERROR, error_text(error))


def _is_declined(error: Exception, measure: Strictness) -> bool:
    """Return whether the engine declines the read: by the error's class, or by the message of another project."""
    if isinstance(error, UnsupportedError | NotImplementedError):
        return True
    return measure is Strictness.FOREIGN and not _is_broken(error) and _DECLINING.search(error_text(error)) is not None


def _is_broken(error: Exception) -> bool:
    return isinstance(error, EngineError) and error.cause in BROKEN


def _score_error(expected: ExpectedError, error: Exception, measure: Strictness) -> Check:
    """Return the check of an error if an error is expected."""
    if measure is not Strictness.FOREIGN:
        if not isinstance(error, HarnessError):
            return _check(Outcome.ERROR, error_text(error))
        # The oracle has its own planner and its own messages.
        if matches_error(error, ExpectedError(expected.kind) if measure is Strictness.ORACLE else expected):
            return _check(Outcome.PASS)
        return _check(Outcome.FAIL, f"expected {_expected_error_text(expected)}, got {error_text(error)}")
    if _is_broken(error):
        return _check(Outcome.ERROR, error_text(error))
    if _is_declined(error, measure) and error_class(expected.kind) != UNSUPPORTED:
        return _check(Outcome.UNSUPPORTED, error_text(error))
    target = error_class(expected.kind, expected.cause)
    is_other = isinstance(error, EngineError) and error.cause in ERROR_CLASSES and error.cause != target
    return _check(Outcome.PASS, notes=(f"refused: {error_text(error)}", *([f"expected {target}"] if is_other else [])))


def _score_rows(expected: pa.Table, rows: pa.Table, measure: Strictness, engine: str) -> Check:
    """Return the check of rows if rows are expected."""
    notes: tuple[str, ...] = ()
    try:
        if measure is Strictness.FOREIGN:
            rows, notes = convert_types(rows, expected.schema)
        comparison = compare(expected, rows, names=("expected", engine), max_rows=MAX_ROWS)
    except HarnessError as error:
        return _check(Outcome.FAIL, f"the rows cannot be compared: {error.message}", wrong_rows=True)
    except pa.ArrowException as error:  # a type that Arrow itself does not support must not end the run
        return _check(Outcome.ERROR, f"the rows cannot be compared: {error_text(error)}")
    if measure is Strictness.FOREIGN:
        carried = [difference for difference in comparison.schema if difference.kind is SchemaKind.TYPE]
        notes += tuple(f"{each.column} is {each.right}, not {each.left}" for each in carried)
        other_differences = tuple(difference for difference in comparison.schema if difference not in carried)
        comparison = dataclasses.replace(comparison, schema=other_differences)
    if comparison.equal:
        return _check(Outcome.PASS, notes=notes)
    text = comparison.sentence.replace("only on the left", "expected and not read")
    text = text.replace("only on the right", "read and not expected")
    return _check(Outcome.FAIL, text, comparison=comparison, notes=notes, wrong_rows=True)
