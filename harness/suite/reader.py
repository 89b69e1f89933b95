"""Harness's own engines as readers under test: they run in this process, without a time limit."""

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
    """A point of a table's history.

    kind, value: `snapshot_id` (Iceberg) and `version` (Delta) with a number, `timestamp_ms` with the milliseconds since
        1970-01-01 UTC at which it was current, `ref` with the name of a branch or tag.
    """

    kind: AtKind
    value: int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAt:
    """A table at a point of its history.

    location: the table's directory, a local path.
    metadata_path: Iceberg: the current metadata file, a local path; Delta: None.
    at: None: the current snapshot.
    """

    format: Literal["iceberg", "delta"]
    location: str
    metadata_path: str | None = None
    at: At | None = None


class ArrowStream(Protocol):
    """Rows: anything that exports an Arrow stream, such as a table of pyarrow or Polars, or a DuckDB relation."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, from the first one."""


class Reader(Protocol):
    """An engine that the suite is run on.

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

    `harness scenarios run --engines my_module:Engine` runs it. A package that declares it as an entry point (see
    `finding`) makes it known by that name. Either way it runs in a process of its own (see `workers`), so that it may
    crash or hang. An engine that cannot live beside harness's own packages is a script instead, in another interpreter:
    see `worker`.
    """

    @property
    def name(self) -> str:
        """The name in reports, and in lists of expected failures."""

    def version(self) -> str:
        """The version of the reader, as exactly as known: results hold for it alone."""

    def capabilities(self) -> frozenset[str] | None:
        """The features that the engine claims to read (`harness.suite.scenarios.features`); None: all.

        A scenario with another feature is UNSUPPORTED, unread. Prefer None, and refuse what cannot be read: a claim is
        not checked, a read is.
        """

    def read(self, table: TableAt, *, columns: tuple[str, ...] | None, where: str | None) -> ArrowStream:
        """The rows of a table.

        Args:
            columns: names of top-level columns, in the order wanted; None: all.
            where: a boolean SQL expression in DuckDB's dialect, over all columns; None: every row.

        A reader with an attribute `options`, names of `docs/suite/reader-protocol.md`, gets these by keyword too. A
        reader may also have `count(table, *, where)`, the number of rows, and
        `changes(table, first, last, *, columns)`, the changes of Delta's versions `first` to `last`.

        Raises:
            Unsupported, NotImplementedError: the engine does not do this. UNSUPPORTED, with the message.
            Any other Exception: the engine refuses to read: right if the table is broken, else ERROR.
        """


ORACLE = "oracle"


@dataclass(frozen=True, slots=True)
class HarnessReader:
    """Harness's planner and one of its engines; for the oracle, a read that shares no code with harness's.

    within: a directory that tables may read files in, and nowhere else; None: elsewhere they do with a warning.
    """

    name: str
    within: str | None = None

    def version(self) -> str:
        """The version of the library that runs the plans."""
        return find_engine(self.name).version()

    def capabilities(self) -> frozenset[str] | None:
        """None: what harness does not read, it refuses."""
        return None

    def answer(self, address: str, expectation: ResolvedExpectation) -> pa.Table:
        """The rows of a read of the table at an address. Raises whatever opening, planning and reading raise."""
        roots = () if self.within is None else (self.within,)
        outside = Outside.WARN if self.within is None else Outside.REFUSE
        if self.name != ORACLE:
            plan = plan_read(address, expectation, allowed_roots=roots, outside=outside.value)
            return find_engine(self.name).to_arrow(plan)
        gate = None if self.within is None else outside
        arguments = {**asdict(expectation.at), **expectation.plan_arguments(), **expectation.opening}
        return read_with_oracle(address, **arguments, allowed_roots=roots, outside=gate)
