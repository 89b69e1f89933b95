"""Scenarios as values: the content of a file in `fixtures/`, and the built table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import pyarrow as pa

from harness import errors
from harness.errors import HarnessError, RequestError
from harness.metadata.model.schema import Field, Schema
from harness.suite.scenarios.arguments import Arguments, checked, look_up, take_all
from harness.writing.local_files import check_inside

TableFormat: TypeAlias = Literal["iceberg", "delta"]


@dataclass(frozen=True, slots=True)
class Selector:
    """A point in a table's history, as written in a scenario.

    Attributes:
        kind: `current`, or a key of `SELECTORS`.
        value: The value for that key. None for `current`.
    """

    kind: str = "current"
    value: str | int | tuple[int, ...] | Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """The error that a read must raise. Readers of other projects only have to raise any error.

    Attributes:
        kind: The name of a class in `harness.errors`. Subclasses are accepted.
        match: A part of the message. None means any message.
        cause: The error's `cause`. None means any cause.
    """

    kind: str
    match: str | None = None
    cause: str | None = None


def _key(
    meaning: str, take: Callable[[Arguments, str], object], *, default: object = None, in_plan: bool = False
) -> Any:
    """Define a key of `expect` as a field of `ExpectationKeys` or `Expectation`. Nothing else is needed for a new key.

    Args:
        meaning: The description in docs/how-to/write-a-scenario.md.
        take: Reads the value from a mapping, by the key's name.
        default: The value if the key is absent.
        in_plan: Whether the key is an argument of `Snapshot.plan`. It is then passed to every read and named in
            reports, and readers without this argument are not tested.
    """
    return field(default=default, metadata={"meaning": meaning, "take": take, "in_plan": in_plan})


def _text(arguments: Arguments, name: str) -> str | None:
    return arguments.typed(str, name, None)


def _texts(arguments: Arguments, name: str) -> tuple[str, ...] | None:
    texts = arguments.texts(name, None)
    return None if texts is None else tuple(texts)


def _rows(arguments: Arguments, name: str) -> Sequence[object] | Mapping[str, object]:
    rows = arguments.any(name)
    return rows if isinstance(rows, Mapping) else checked(list, rows, f"{arguments.place}, key {name!r}")


def _error(arguments: Arguments, name: str) -> ExpectedError:
    kind = arguments.text(name)
    error_type = getattr(errors, kind, None)
    if not (isinstance(error_type, type) and issubclass(error_type, HarnessError)):
        raise RequestError(f"Unknown error {kind!r} in {arguments.place}: expected a class of harness.errors")
    return ExpectedError(kind, _text(arguments, "match"), _text(arguments, "cause"))


def _selector(arguments: Arguments, name: str) -> Selector:
    value_at_key, place = arguments.any(name), f"{arguments.place}, key {name!r}"
    if value_at_key is None:
        return Selector()
    selectors = Arguments(value_at_key, place)
    kind = next(filter(selectors.has, SELECTORS), None)
    if kind is None:
        raise RequestError(f"Invalid {place}: expected one of {', '.join(SELECTORS)}")
    argument: object = selectors.any(kind)
    if isinstance(argument, bool) or not isinstance(argument, SELECTORS[kind].types):
        raise RequestError(f"Invalid {kind!r} in {place}: got {argument!r}")
    selectors.finish()
    value: Any = tuple(argument) if isinstance(argument, list) else argument
    return Selector(kind, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationKeys:
    """The keys of `expect` that reads and scores use unchanged."""

    columns: tuple[str, ...] | None = _key(
        "column names in output order, including metadata columns like `_pos` and `_row_id`. Default: all columns",
        _texts,
        in_plan=True,
    )
    where: str | None = _key("a boolean expression in DuckDB's SQL", _text, in_plan=True)
    open: str | None = _key(
        "the reason why the specification leaves the result open. `rows` or `error` then hold harness's decision, "
        "and other readers may differ",
        _text,
    )
    policy: str | None = _key(
        "the reason for a result that harness chose and the specification does not require, see below", _text
    )

    @property
    def demand(self) -> Literal["must", "policy"]:
        """Whether the specification (`must`) or harness's policy (`policy`) requires the result."""
        return "must" if self.policy is None else "policy"

    def plan_arguments(self) -> dict[str, Any]:
        """Return the arguments of `Snapshot.plan` that the scenario specifies."""
        arguments = {f.name: getattr(self, f.name) for f in fields(ExpectationKeys) if f.metadata["in_plan"]}
        return {name: value for name, value in arguments.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation(ExpectationKeys):
    """A read and its expected result, as written in a scenario: either `rows` or `error`, unless it is `open`."""

    at: Selector = _key(  # noqa: RUF009  # a field
        "a point in the table's history, see below. Default: the current state", _selector, default=Selector()
    )
    rows: Sequence[Any] | Mapping[str, Any] | None = _key(
        "lists in column order, or mappings (a missing name is null). The order of rows does not matter; types, "
        "the numbers of equal rows, NaN and -0.0 do. `_file` is the file's label. Many rows can be generated: "
        '`{count: 3000, from: 0, step: 1, row: ["{i}", "n{i}"], except: [0, [10, 19]]}`',
        _rows,
    )
    error: ExpectedError | None = _key(  # noqa: RUF009  # a field
        "instead of rows, a class of `harness.errors`, optionally with `cause` and `match` (a part of the message)",
        _error,
    )
    types: Mapping[str, str] | None = _key(
        "`{column: type}`, for types that the builder does not know because the scenario edits a document",
        lambda arguments, name: arguments.typed(dict, name),
    )
    catalog: Mapping[str, object] | str | None = _key(
        "Delta: the answer of the table's catalog. `{max-version: 3, ratified: [2, 3]}` with versions that `stage` "
        "and `hold` removed from the log, or names of staged commits; or `published`. Default: no catalog",
        lambda arguments, name: arguments.any(name),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A table, its history, and the expected results of reading it.

    Attributes:
        name: The path below `fixtures/` without the extension: `iceberg/deletes/own-commit`.
        path: The file. None if the scenario was made in memory.
        clauses: Rule numbers (`iceberg 4.7`), traps, and sections of a specification.
        features: Names of `features.MEANINGS` that must occur in the table or in the plans of its reads.
        findings: The ids of the checks of `harness check` that the table fails, in ascending order.
        table: The initial table, as in the file.
        history: The operations, as in the file.
    """

    name: str
    path: Path | None
    title: str
    format: TableFormat
    clauses: tuple[str, ...]
    features: tuple[str, ...]
    findings: tuple[str, ...] = ()
    table: Mapping[str, Any]
    history: tuple[Mapping[str, Any], ...]
    expectations: tuple[Expectation, ...]


CHANGE_MODES = ("appends", "changelog", "net", "updates")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedChanges:
    """The range of a read of changes, see `harness.Table.changes`.

    Attributes:
        from_: The snapshot id or version where the range begins, or the name of a branch or tag. None for the oldest
            snapshot, inclusive.
        to: The snapshot id or version where the range ends, or the name of a branch or tag. None for the current one.
        from_inclusive: Whether the changes of the commit `from_` are in the range. The changes of `to` are.
        mode: One of `CHANGE_MODES`.
        keys: The columns that identify a row when updates are paired. None for the identifier fields.
    """

    from_: int | str | None = None
    to: int | str | None = None
    from_inclusive: bool = False
    mode: str = "changelog"
    keys: tuple[str, ...] | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the range as arguments of `harness.Table.changes`."""
        moments = {"from_": self.from_, "to": self.to}
        arguments = {name: f"ref={at}" if isinstance(at, str) else at for name, at in moments.items()}
        return {**arguments, "from_inclusive": self.from_inclusive, "mode": self.mode, "keys": self.keys}

    def to_json(self) -> dict[str, Any]:
        """Return the range as in requests of the reader protocol and in files of the suite."""
        keys = None if self.keys is None else list(self.keys)
        ends = {"from": self.from_, "to": self.to, "from_inclusive": self.from_inclusive}
        return {**ends, "mode": self.mode, "keys": keys}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ResolvedChanges:
        """Return the range of a document from `to_json`."""
        keys = None if document["keys"] is None else tuple(document["keys"])
        mode, is_inclusive = document["mode"], document["from_inclusive"]
        return cls(from_=document["from"], to=document["to"], from_inclusive=is_inclusive, mode=mode, keys=keys)

    @property
    def text(self) -> str:
        """A description, for example `changes after 3 up to 5, net`."""
        start = "" if self.from_ is None else f" {'from' if self.from_inclusive else 'after'} {self.from_}"
        end = "" if self.to is None else f" up to {self.to}"
        keys = "" if self.keys is None else f" by {', '.join(self.keys)}"
        return f"changes{start}{end}{'' if self.mode == 'changelog' else f', {self.mode}'}{keys}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSelector:
    """A selector with labels replaced by ids. At most one field is not None."""

    snapshot_id: int | None = None
    version: int | None = None
    timestamp_ms: int | None = None
    ref: str | None = None
    changes: ResolvedChanges | None = None

    def arguments(self) -> dict[str, int | str]:
        """Return the selector as a mapping with one key. It is empty for the current snapshot and for changes."""
        arguments = {name: getattr(self, name) for name in ("snapshot_id", "version", "timestamp_ms", "ref")}
        return {name: value for name, value in arguments.items() if value is not None}

    @property
    def moment(self) -> int | str | None:
        """The argument of `harness.Table.snapshot`. None for the current snapshot and for changes."""
        if self.timestamp_ms is not None:
            return f"timestamp={self.timestamp_ms}"
        if self.ref is not None:
            return f"ref={self.ref}"
        return self.version if self.snapshot_id is None else self.snapshot_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedExpectation(ExpectationKeys):
    """An expectation for a built table.

    Attributes:
        number: The position in the scenario, from 1.
        expected: The rows with the exact types of the read, or the error. None if the result is open and undecided.
        opening: The catalog's answer as arguments of `harness.open_table` and of the oracle.
    """

    number: int
    at: ResolvedSelector
    expected: pa.Table | ExpectedError | None
    opening: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation in `history`.

    Attributes:
        keys: The form of its value, as shown in docs/how-to/write-a-scenario.md.
        run: Executes the operation. The arguments are the history, the value, and the place. If it returns a label, the
            label names the newest version.
    """

    keys: str
    run: Callable[[Any, Any, str], object]


class ScenarioHistory(ABC):
    """The builder of one format, controlled by the operations of a scenario.

    Subclasses are created with (directory, table), where `table` is the mapping in the scenario.

    Attributes:
        format: The table format.
        point: The selector that takes a commit's number.
        operations: The operations by name.
        table: The builder's table.
        writes: Writes the files and keeps them by label.
        commits: Versions or snapshot ids by label.
        directory: The directory that contains all files.
    """

    format: ClassVar[TableFormat]
    point: ClassVar[Literal["snapshot_id", "version"]]
    operations: ClassVar[Mapping[str, Operation]]
    table: Any
    writes: Any
    commits: dict[str, int]
    directory: Path

    @property
    def files(self) -> Mapping[str, Any]:
        """The handles of files by label."""
        files: Mapping[str, object] = self.writes.files
        return files

    @property
    def labels(self) -> Mapping[str, str]:
        """The recorded paths of files by label. In expected rows, `_file` is written as a label."""
        return {label: handle.path for label, handle in self.files.items()}

    @property
    @abstractmethod
    def location(self) -> Path:
        """The current directory of the table."""

    @property
    @abstractmethod
    def metadata_path(self) -> Path | None:
        """The newest metadata file. None if the format needs no metadata file."""

    def apply(self, operation: Mapping[str, object]) -> None:
        """Execute one operation, in the form of an entry of `history`.

        Raises:
            RequestError: The operation, a key, or a label is unknown, or a value has the wrong type.
        """
        if not isinstance(operation, Mapping) or len(operation) != 1:
            raise RequestError(f"Invalid operation {operation!r}: expected a mapping with one key")
        ((name, value),) = operation.items()
        if name not in self.operations:
            names = ", ".join(self.operations)
            raise RequestError(f"Unknown operation {name!r}: {self.format.capitalize()} histories have {names}")
        label = self.operations[name].run(self, value, f"operation {name!r}")
        if isinstance(label, str):
            self.commits[label] = self.table.version

    def resolve(self, selector: Selector) -> ResolvedSelector:
        """Return the selector with labels replaced by ids and times. Numbers stay unchanged.

        Raises:
            RequestError: The commit is unknown, or the format does not support the selector.
        """
        kind, value = selector.kind, selector.value
        if kind == "current":
            return ResolvedSelector()
        if self.format not in SELECTORS[kind].formats:
            names = ", ".join(name for name, selector in SELECTORS.items() if self.format in selector.formats)
            raise RequestError(f"Invalid {kind} {value!r}: {self.format.capitalize()} tables have {names}")
        return SELECTORS[kind].resolved(self, value)

    @abstractmethod
    def time_of(self, commit: int) -> int:
        """Return the time of a snapshot or version for time travel, in milliseconds since 1970 UTC."""

    @abstractmethod
    def opening(self, catalog: Mapping[str, object] | str | None) -> Mapping[str, Any]:
        """Return the arguments of `harness.open_table`, and of the oracle, for a catalog's answer.

        Raises:
            RequestError: The answer is invalid, or the format has no catalog-managed tables.
        """

    @abstractmethod
    def schema_at(self, selector: ResolvedSelector) -> Schema:
        """Return the schema of a read at the selector."""

    @abstractmethod
    def metadata_field(self, name: str) -> Field | None:
        """Return a metadata column like `_pos` with its type in this table, or None if it is unknown."""

    def _new_folder(self, value: object, place: str) -> Path:
        """Return the target folder of `move-table`."""
        target = check_inside(self.directory, self.directory / checked(str, value, place))
        target.parent.mkdir(parents=True, exist_ok=True)
        return target


def builder_operation(keys: str, method: str, kind: type | None = None, **kinds: object) -> Operation:
    """Return an operation that calls a method of the builder with one value or with the values of a mapping.

    `kind` is the type of a single value; `kinds` are the keys of the mapping, see `take_all`.
    """

    def run(history: ScenarioHistory, value: object, place: str) -> None:
        arguments = take_all(value, place, **kinds) if kind is None else [checked(kind, value, place)]
        getattr(history.table, method)(*arguments)

    return Operation(keys, run)


COLUMN_OPERATIONS: Mapping[str, Operation] = {
    "drop-column": builder_operation("PATH", "drop_column", str),
    "rename-column": builder_operation("{path, to}", "rename_column", path=str, to=str),
    "move-column": builder_operation("{path, to}", "move_column", path=str, to=int),
}
"""Operations of both formats."""


@dataclass(frozen=True, slots=True)
class SelectorKind:
    """A key of `at`.

    Attributes:
        meaning: The description of its value in docs/how-to/write-a-scenario.md.
        types: The types that the value may have.
        resolved: Returns the point in a history.
        formats: The formats that support the key.
    """

    meaning: str
    types: tuple[type, ...]
    resolved: Callable[[ScenarioHistory, Any], ResolvedSelector]
    formats: tuple[TableFormat, ...] = ("iceberg", "delta")


def _commit_id(history: ScenarioHistory, value: str | int, selector: str) -> int:
    return value if isinstance(value, int) else look_up(history.commits, value, "commit", selector)


def _snapshot(history: ScenarioHistory, value: str | int) -> ResolvedSelector:
    point: dict[str, Any] = {history.point: _commit_id(history, value, "snapshot")}
    return ResolvedSelector(**point)


def _changes(history: ScenarioHistory, value: Sequence[object] | Mapping[str, object]) -> ResolvedSelector:
    if history.format == "delta":
        versions = checked(tuple, value, "changes")
        if len(versions) != 2:
            raise RequestError(f"Invalid changes {list(versions)}: expected the first and the last version")
        first, last = (checked(int, each, "changes") for each in versions)
        return ResolvedSelector(changes=ResolvedChanges(from_=first, to=last, from_inclusive=True))
    arguments = Arguments(value, "changes")
    moments = {name: _moment(history, arguments.any(name)) for name in ("from", "to") if arguments.has(name)}
    keys = arguments.texts("keys", None)
    changes = ResolvedChanges(
        from_=moments.get("from"),
        to=moments.get("to"),
        from_inclusive=arguments.typed(bool, "from-inclusive", False),
        mode=arguments.choice("mode", CHANGE_MODES, "changelog"),
        keys=None if keys is None else tuple(keys),
    )
    arguments.finish()
    return ResolvedSelector(changes=changes)


def _moment(history: ScenarioHistory, value: object) -> int | str:
    """Return a snapshot id for a label or an id, or the name in `{ref: NAME}`."""
    if isinstance(value, Mapping):
        arguments = Arguments(value, "changes")
        name = arguments.text("ref")
        arguments.finish()
        return name
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RequestError(f"Invalid 'changes': expected a label, a snapshot id, or a mapping, got {value!r}")
    return _commit_id(history, value, "changes")


SELECTORS: Mapping[str, SelectorKind] = {
    "snapshot": SelectorKind(
        "the label of a commit, or the snapshot's id as a number",
        (str, int),
        _snapshot,
    ),
    "ref": SelectorKind(
        "Iceberg: the name of a branch or tag",
        (str,),
        lambda _, value: ResolvedSelector(ref=value),
        formats=("iceberg",),
    ),
    "version": SelectorKind(
        "Delta: the version number", (int,), lambda _, value: ResolvedSelector(version=value), formats=("delta",)
    ),
    "timestamp": SelectorKind(
        "milliseconds since 1970 UTC, or the label of a commit",
        (int, str),
        lambda history, value: ResolvedSelector(
            timestamp_ms=value if isinstance(value, int) else history.time_of(_commit_id(history, value, "timestamp"))
        ),
    ),
    "changes": SelectorKind(
        "the range whose changes are read, see `Table.changes`. Delta: `[first, last]`, the versions. Iceberg: "
        "`{from, to, from-inclusive, mode, keys}`; `from` and `to` are the label of a commit, a snapshot's id, or "
        "`{ref: NAME}`",
        (list, dict),
        _changes,
    ),
}
"""The keys of `at`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCase:
    """A table on disk and its reads: built from a scenario, or loaded from a suite.

    Attributes:
        scenario: The scenario. In a case of a suite, its `table`, `history` and `expectations` are empty.
        location: The table's directory.
        metadata_path: The newest metadata file. None for Delta.
        expectations: The reads, in the scenario's order.
    """

    scenario: Scenario
    location: Path
    metadata_path: Path | None
    expectations: tuple[ResolvedExpectation, ...]

    @property
    def address(self) -> str:
        """The path to open: the directory, or the metadata file if the directory does not identify it."""
        if self.metadata_path is None or next(self.metadata_path.parent.glob("v*.json"), None) is not None:
            return str(self.location)
        return str(self.metadata_path)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltScenario(TableCase):
    """The table of a scenario on disk. `history.table` is the builder's table."""

    history: ScenarioHistory
