"""Scenarios as values: the content of a file of `fixtures/`, and the built table."""

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
    """A point of a table's history, as a scenario says it.

    kind: `current`, or one of `WAYS`. value: as that entry says; None: `current`.
    """

    kind: str = "current"
    value: str | int | tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """The error that a read must end with.

    kind: name of a class of `harness.errors`; that class or one below it. match: words of the message; None: any.
    cause: the error's `cause`; None: any. Of other readers only an error is asked, whatever they call it.
    """

    kind: str
    match: str | None = None
    cause: str | None = None


def _key(
    meaning: str, take: Callable[[Arguments, str], object], *, default: object = None, in_plan: bool = False
) -> Any:
    """A key of `expect`: a field of `ExpectationKeys` or `Expectation`, and no line elsewhere.

    meaning: words of fixtures/README.md. take: the value out of a mapping, by the key's name. in_plan: whether it is an
    argument of `Snapshot.plan`. Then every read gets it and reports name it; a reader that has no such argument is not
    asked.
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
    chosen: object = selectors.any(kind)
    if isinstance(chosen, bool) or not isinstance(chosen, SELECTORS[kind].types):
        raise RequestError(f"Invalid {kind!r} in {place}: got {chosen!r}")
    selectors.finish()
    value: Any = tuple(chosen) if isinstance(chosen, list) else chosen
    return Selector(kind, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationKeys:
    """The keys of `expect` that reads and scores use unchanged."""

    columns: tuple[str, ...] | None = _key(
        "names in the order wanted, metadata columns such as `_pos` and `_row_id` too. Left out: all",
        _texts,
        in_plan=True,
    )
    where: str | None = _key("a boolean expression of SQL, as DuckDB has it", _text, in_plan=True)
    open: str | None = _key(
        "why the specification leaves this open; what harness decided stands beside it, and others may differ", _text
    )
    policy: str | None = _key(
        "why harness gives this answer, which the specification does not demand, see below", _text
    )

    @property
    def demand(self) -> Literal["must", "policy"]:
        """The force of what is expected: a demand of the specification, or harness's policy."""
        return "must" if self.policy is None else "policy"

    def plan_arguments(self) -> dict[str, Any]:
        """The arguments of `Snapshot.plan` that the scenario gives."""
        arguments = {f.name: getattr(self, f.name) for f in fields(ExpectationKeys) if f.metadata["in_plan"]}
        return {name: value for name, value in arguments.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation(ExpectationKeys):
    """A read and what it must give, as a scenario says it; either `rows` or `error`, unless `open`."""

    at: Selector = _key("a moment, see below. Left out: now", _selector, default=Selector())  # noqa: RUF009  # a field
    rows: Sequence[Any] | Mapping[str, Any] | None = _key(
        "lists in the order of the columns, or mappings (a name left out is null). Order of rows means nothing; types, "
        "numbers of equal rows, NaN and -0.0 do. `_file` is given by label. Many rows are counted: "
        '`{count: 3000, from: 0, step: 1, row: ["{i}", "n{i}"], except: [0, [10, 19]]}`',
        _rows,
    )
    error: ExpectedError | None = _key(  # noqa: RUF009  # a field
        "in place of rows, a class of `harness.errors`; `cause` and `match` (words of the message) where they matter",
        _error,
    )
    types: Mapping[str, str] | None = _key(
        "`{column: type}`, types that the builder cannot know because a document was edited by hand",
        lambda arguments, name: arguments.typed(dict, name),
    )
    catalog: Mapping[str, object] | str | None = _key(
        "Delta: what is known of the table's catalog. `{max-version: 3, ratified: [2, 3]}` with versions that `stage` "
        "and `hold` took out of the log, or names of staged commits; or `published`. Left out: nothing",
        lambda arguments, name: arguments.any(name),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A table, its history, and what reading it must give.

    name: its path below `fixtures/`, without the ending: `iceberg/deletes/own-commit`.
    path: the file; None: made in memory. clauses: rule numbers (`iceberg 4.7`), traps, sections of a specification.
    features: names of `features.MEANINGS` that must occur in the table or the plans of its reads.
    findings: ids of the rules of `harness check` that the table breaks, ascending.
    table, history: as in the file: what the builder begins with, and one operation each.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSelector:
    """A selector with labels replaced by ids; at most one is not None.

    changes: the first and last version of a read of changes, see `Table.changes`.
    """

    snapshot_id: int | None = None
    version: int | None = None
    timestamp_ms: int | None = None
    ref: str | None = None
    changes: tuple[int, int] | None = None

    def arguments(self) -> dict[str, int | str]:
        """Return the selector by its name; nothing for the current snapshot and for changes."""
        arguments = {name: getattr(self, name) for name in ("snapshot_id", "version", "timestamp_ms", "ref")}
        return {name: value for name, value in arguments.items() if value is not None}

    @property
    def moment(self) -> int | str | None:
        """The argument of `harness.Table.snapshot`; None for the current snapshot, and for changes."""
        if self.timestamp_ms is not None:
            return f"timestamp={self.timestamp_ms}"
        if self.ref is not None:
            return f"ref={self.ref}"
        return self.version if self.snapshot_id is None else self.snapshot_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedExpectation(ExpectationKeys):
    """An expectation of a table that is built.

    number: its place in the scenario, from 1. expected: the rows in the exact types of the read, or the error; None:
    open, and nothing was decided.
    opening: arguments of `harness.open_table` and of the oracle's planner: the catalog's answer.
    """

    number: int
    at: ResolvedSelector
    expected: pa.Table | ExpectedError | None
    opening: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of `history`.

    keys: its value, in the words of fixtures/README.md. run: does it, given history, value and place; a label that it
    gives is that of the newest version.
    """

    keys: str
    run: Callable[[Any, Any, str], object]


class ScenarioHistory(ABC):
    """The builder of one format, driven by the operations of a scenario.

    Made with (directory, table), the mapping under a scenario's `table`. table: the builder. writes: writes the files,
    and has them by label. commits: versions or snapshot ids by label. directory: holds all that is written.
    format, operations: of the class. point: the selector that a commit's number is.
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
        """Recorded paths of files by label; `_file` of expected rows is given by label."""
        return {label: handle.path for label, handle in self.files.items()}

    @property
    @abstractmethod
    def location(self) -> Path:
        """The directory where the table is now."""

    @property
    @abstractmethod
    def metadata_path(self) -> Path | None:
        """The newest metadata file; None: the format finds its own."""

    def apply(self, operation: Mapping[str, object]) -> None:
        """Runs one operation, as it stands under `history`.

        Raises:
            RequestError: an operation, key or label that does not exist, or a value of the wrong type.
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
        """The selector with labels replaced by ids and times; numbers stay.

        Raises:
            RequestError: there is no such commit, or the format has no such selector.
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
        """The time by which a snapshot or version is found, in milliseconds since 1970 UTC."""

    @abstractmethod
    def opening(self, catalog: Mapping[str, object] | str | None) -> Mapping[str, Any]:
        """Arguments of `harness.open_table`, and of the oracle's planner, for a catalog's answer.

        Raises:
            RequestError: the answer cannot be, or the format has no such tables.
        """

    @abstractmethod
    def schema_at(self, selector: ResolvedSelector) -> Schema:
        """The schema that a read at the selector shows."""

    @abstractmethod
    def metadata_field(self, name: str) -> Field | None:
        """The metadata column of this name, such as `_pos`, typed for this table; None: there is none."""

    def _new_folder(self, value: object, place: str) -> Path:
        """The folder that `move-table` moves the table to."""
        target = check_inside(self.directory, self.directory / checked(str, value, place))
        target.parent.mkdir(parents=True, exist_ok=True)
        return target


def builder_operation(keys: str, method: str, kind: type | None = None, **kinds: object) -> Operation:
    """An operation that is a method of the builder, of one value or of the values of a mapping (see `taken`)."""

    def run(history: ScenarioHistory, value: object, place: str) -> None:
        arguments = take_all(value, place, **kinds) if kind is None else [checked(kind, value, place)]
        getattr(history.table, method)(*arguments)

    return Operation(keys, run)


COLUMN_OPERATIONS: Mapping[str, Operation] = {
    "drop-column": builder_operation("PATH", "drop_column", str),
    "rename-column": builder_operation("{path, to}", "rename_column", path=str, to=str),
    "move-column": builder_operation("{path, to}", "move_column", path=str, to=int),
}
"""Operations that both formats have."""


@dataclass(frozen=True, slots=True)
class SelectorKind:
    """A way to say `at`.

    meaning: of its value, in the words of fixtures/README.md. types: that the value may have.
    resolved: the point of a history that it means. formats: that have it.
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


def _changes(history: ScenarioHistory, value: Sequence[object]) -> ResolvedSelector:
    if len(value) != 2:
        raise RequestError(f"Invalid changes {list(value)}: expected the first and the last version")
    first, last = (checked(int, each, "changes") for each in value)
    return ResolvedSelector(changes=(first, last))


SELECTORS: Mapping[str, SelectorKind] = {
    "snapshot": SelectorKind(
        "label of a commit; or a number, the snapshot's id",
        (str, int),
        _snapshot,
    ),
    "ref": SelectorKind(
        "Iceberg: name of a branch or tag", (str,), lambda _, value: ResolvedSelector(ref=value), formats=("iceberg",)
    ),
    "version": SelectorKind(
        "Delta: number", (int,), lambda _, value: ResolvedSelector(version=value), formats=("delta",)
    ),
    "timestamp": SelectorKind(
        "milliseconds since 1970 UTC, or the label of a commit",
        (int, str),
        lambda history, value: ResolvedSelector(
            timestamp_ms=value if isinstance(value, int) else history.time_of(_commit_id(history, value, "timestamp"))
        ),
    ),
    "changes": SelectorKind(
        "Delta: `[first, last]`, versions whose changes are read; see `Table.changes`", (list,), _changes, ("delta",)
    ),
}
"""The ways to say `at` by their keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCase:
    """A table on disk and its reads: built from a scenario, or read from a suite that is data.

    scenario: a case of a suite has none of its keys `table`, `history` and `expect`.
    location: the table's directory. metadata_path: its newest metadata file; None for Delta.
    expectations: in the scenario's order.
    """

    scenario: Scenario
    location: Path
    metadata_path: Path | None
    expectations: tuple[ResolvedExpectation, ...]

    @property
    def address(self) -> str:
        """The address to open: the directory, or the metadata file if the directory does not tell it."""
        if self.metadata_path is None or next(self.metadata_path.parent.glob("v*.json"), None) is not None:
            return str(self.location)
        return str(self.metadata_path)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltScenario(TableCase):
    """A scenario's table on disk.

    history: what built it; the builder's table is `history.table`.
    """

    history: ScenarioHistory
