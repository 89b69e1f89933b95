"""The interface of a reader under test, and harness's own engines as readers.

Harness's own engines run in this process, without a time limit.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, Protocol, TypeAlias

import pyarrow as pa

from harness.engines.registry import find_engine
from harness.errors import UnsupportedError as Unsupported
from harness.storage.gate import Outside
from harness.suite.oracle_engine import read_with_oracle
from harness.suite.scenarios.evidence import plan_read
from harness.suite.scenarios.model import ResolvedExpectation

__all__ = ["ArrowStream", "At", "Reader", "TableAt", "Unsupported"]


AtKind: TypeAlias = Literal["snapshot_id", "version", "timestamp_ms", "ref"]


@dataclass(frozen=True, slots=True)
class At:
    """A point in a table's history.

    Attributes:
        kind: `snapshot_id` (Iceberg), `version` (Delta), `timestamp_ms`, or `ref`.
        value: The number of the snapshot or version, a time in milliseconds since 1970-01-01 UTC, or the name of a
            branch or tag.
    """

    kind: AtKind
    value: int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAt:
    """A table at a point in its history.

    Attributes:
        location: The table's directory, a local path.
        metadata_path: The current metadata file of an Iceberg table, a local path. None for Delta.
        at: The point in the table's history. None means the current snapshot.
    """

    format: Literal["iceberg", "delta"]
    location: str
    metadata_path: str | None = None
    at: At | None = None


class ArrowStream(Protocol):
    """Rows: any object that exports an Arrow stream, for example a table of pyarrow or Polars, or a DuckDB relation."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as an Arrow stream that starts at the first row."""


class Reader(Protocol):
    """An engine that the suite runs on.

        class Engine:
            name = "mine"

            def version(self) -> str:
                return mine.__version__

            def capabilities(self) -> frozenset[str] | None:
                return None

            def read(self, table, *, columns, where):
                if table.format == "delta":
                    raise Unsupported("Delta tables are not read")
                return mine.scan(table.metadata_path).to_arrow()

    `harness scenarios run --engines my_module:Engine` runs it. A package can also register it by name with an entry
    point (see `readers`). In both cases it runs in a separate process (see `workers`), so it may crash or hang. An
    engine whose packages conflict with harness's packages can be a script that runs in another interpreter: see
    `worker`.
    """

    @property
    def name(self) -> str:
        """The name in reports and in lists of expected failures."""

    def version(self) -> str:
        """Return the version of the reader, as precisely as possible. Results apply only to this version."""

    def capabilities(self) -> frozenset[str] | None:
        """Return the features that the engine claims to read (`harness.suite.scenarios.features`). None means all.

        A scenario with another feature is UNSUPPORTED without being read. Prefer None, and raise `Unsupported` for what
        cannot be read: reads are checked, claims are not.
        """

    def read(self, table: TableAt, *, columns: tuple[str, ...] | None, where: str | None) -> ArrowStream:
        """Return the rows of a table.

        A reader with an attribute `options` also receives these options as keyword arguments; see
        `docs/suite/reader-protocol.md`. A reader may also have the methods `count(table, *, where)`, which returns the
        number of rows, and `changes(table, range, *, columns, where)`, which returns the changes in a range of
        snapshots or versions; `range` has the attributes `from_`, `to`, `from_inclusive`, `mode`, and `keys`.

        Args:
            table: The table.
            columns: Names of top-level columns in output order. None means all.
            where: A boolean SQL expression in DuckDB's dialect, over all columns. None means every row.

        Raises:
            Unsupported: The engine does not support the read. The outcome is UNSUPPORTED with the message.
                NotImplementedError has the same meaning.
            Exception: The engine refuses to read the table. This is correct if the table is broken, otherwise the
                outcome is ERROR.
        """


ORACLE = "oracle"


@dataclass(frozen=True, slots=True)
class HarnessReader:
    """Harness's planner with one of its engines. The oracle has its own planner and shares no code with harness.

    Attributes:
        within: Tables may only read files in this directory. None also allows other files, with a warning.
    """

    name: str
    within: str | None = None

    def version(self) -> str:
        """Return the version of the library that executes the plans."""
        return find_engine(self.name).version()

    def capabilities(self) -> frozenset[str] | None:
        """Return None: harness raises an error for everything that it does not support."""
        return None

    def answer(self, address: str, expectation: ResolvedExpectation) -> pa.Table:
        """Return the rows of a read of the table at an address.

        Raises:
            HarnessError: Opening, planning, or reading fails.
        """
        roots = () if self.within is None else (self.within,)
        outside = Outside.WARN if self.within is None else Outside.REFUSE
        if self.name != ORACLE:
            plan = plan_read(address, expectation, allowed_roots=roots, outside=outside.value)
            return find_engine(self.name).to_arrow(plan)
        gate = None if self.within is None else outside
        arguments = {**asdict(expectation.at), **expectation.plan_arguments(), **expectation.opening}
        return read_with_oracle(address, **arguments, allowed_roots=roots, outside=gate)
