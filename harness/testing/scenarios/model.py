"""Scenarios as values: the content of a file of `fixtures/`, and the built table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import pyarrow as pa

from harness.errors import RequestError
from harness.metadata.model.schema import Field, Schema
from harness.testing.scenarios.arguments import checked, taken
from harness.testing.writing.places import inside

TableFormat: TypeAlias = Literal["iceberg", "delta"]
SelectorKind: TypeAlias = Literal["current", "snapshot", "ref", "version", "timestamp", "changes"]


@dataclass(frozen=True, slots=True)
class Selector:
    """A point of a table's history, as a scenario says it.

    value: a commit's label (`snapshot`), a branch or tag (`ref`), a number (`version`), milliseconds since 1970 UTC or
        a commit's label (`timestamp`), the first and last version of a range of changes (`changes`); None: `current`.
    """

    kind: SelectorKind = "current"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A read and what it must give, as a scenario says it; either `rows` or `error`, unless `open`.

    columns: names in the order wanted; None: all. where: a boolean SQL expression in DuckDB's dialect.
    rows: lists in the order of the columns or mappings, natural values (see `values`), or a mapping that counts them
        (see `rows`); order means nothing.
    open: why the specification leaves the result open; None: it does not. Then `rows` and `error` are what harness
        decided, and other readers may differ.
    policy: why the result is harness's policy, which no sentence of the specification demands; None: the specification
        does.
    types: type texts by name, for columns whose types the builder cannot tell, because a document was edited by hand.
    catalog: what is known of the catalog that manages a Delta table: `published` for what is published alone, or
        `max-version` and `ratified`: versions that `stage` or `hold` took out of the log, or names of staged commits.
        None: nothing.
    """

    at: Selector = Selector()
    columns: tuple[str, ...] | None = None
    where: str | None = None
    rows: Sequence[Any] | Mapping[str, Any] | None = None
    error: ExpectedError | None = None
    open: str | None = None
    policy: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    catalog: Mapping[str, Any] | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A table, its history, and what reading it must give.

    name: its path below `fixtures/`, without the ending: `iceberg/deletes/own-commit`.
    path: the file; None: made in memory. clauses: rule numbers (`iceberg 4.7`), traps, sections of a specification.
    features: names of `features.MEANINGS` that must occur in the table or the plans of its reads.
    table, history: as in the file: what the builder begins with, and one operation each.
    """

    name: str
    path: Path | None
    title: str
    format: TableFormat
    clauses: tuple[str, ...]
    features: tuple[str, ...]
    table: Mapping[str, Any]
    history: tuple[Mapping[str, Any], ...]
    expectations: tuple[Expectation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSelector:
    """A selector with labels replaced by ids; at most one is not None. The names are those of `Table.snapshot`.

    changes: the first and last version of a read of changes, see `Table.changes`.
    """

    snapshot_id: int | None = None
    version: int | None = None
    timestamp_ms: int | None = None
    ref: str | None = None
    changes: tuple[int, int] | None = None

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for `harness.Table.snapshot`; none for changes, which are no snapshot."""
        names = {"snapshot_id": "snapshot_id", "version": "version", "timestamp_ms": "timestamp", "ref": "ref"}
        given = {name: getattr(self, own) for own, name in names.items()}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedExpectation:
    """An expectation of a table that is built.

    number: its place in the scenario, from 1. expected: the rows in the exact types of the read, or the error; None:
    open, and nothing was decided. open, policy: as in `Expectation`.
    opening: arguments of `harness.open_table` and of the oracle's planner: the catalog's answer.
    """

    number: int
    at: ResolvedSelector
    columns: tuple[str, ...] | None
    where: str | None
    expected: pa.Table | ExpectedError | None
    open: str | None = None
    policy: str | None = None
    opening: Mapping[str, Any] = field(default_factory=dict)

    @property
    def demand(self) -> Literal["must", "policy"]:
        """The force of what is expected: a demand of the specification, or harness's policy."""
        return "must" if self.policy is None else "policy"


class History(ABC):
    """The builder of one format, driven by the operations of a scenario.

    Made with (directory, table), the mapping under a scenario's `table`. table: the builder. writes: writes the files,
    and has them by label. commits: versions or snapshot ids by label. directory: holds all that is written.
    operations: by name, functions of history, value and place; a label that one gives is that of the newest version.
    """

    table: Any
    writes: Any
    commits: dict[str, int]
    directory: Path
    operations: ClassVar[Mapping[str, Callable[[Any, Any, str], object]]]

    @property
    def files(self) -> Mapping[str, Any]:
        """The handles of files by label."""
        files: Mapping[str, Any] = self.writes.files
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

    def apply(self, operation: Mapping[str, Any]) -> None:
        """Runs one operation, as it stands under `history`.

        Raises:
            RequestError: an operation, key or label that does not exist, or a value of the wrong type.
        """
        if not isinstance(operation, Mapping) or len(operation) != 1:
            raise RequestError(f"Invalid operation {operation!r}: expected a mapping with one key")
        ((name, value),) = operation.items()
        if name not in self.operations:
            kind = type(self).__name__.removesuffix("History")
            raise RequestError(f"Unknown operation {name!r}: {kind} histories have {', '.join(self.operations)}")
        label = self.operations[name](self, value, f"operation {name!r}")
        if isinstance(label, str):
            self.commits[label] = self.table.version

    @abstractmethod
    def resolve(self, selector: Selector) -> ResolvedSelector:
        """The selector with labels replaced by ids.

        Raises:
            RequestError: there is no such commit, or the format has no such selector.
        """

    @abstractmethod
    def opening(self, catalog: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
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

    def _new_folder(self, value: Any, place: str) -> Path:
        """The folder that `move-table` moves the table to."""
        target = inside(self.directory, self.directory / checked(str, value, place))
        target.parent.mkdir(parents=True, exist_ok=True)
        return target


COLUMN_OPERATIONS: Mapping[str, Callable[[Any, Any, str], object]] = {
    "drop-column": lambda history, value, place: history.table.drop_column(checked(str, value, place)),
    "rename-column": lambda history, value, place: history.table.rename_column(*taken(value, place, path=str, to=str)),
    "move-column": lambda history, value, place: history.table.move_column(*taken(value, place, path=str, to=int)),
}
"""Operations that both formats have."""


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
class Built(TableCase):
    """A scenario's table on disk.

    history: what built it; the builder's table is `history.table`.
    """

    history: History
