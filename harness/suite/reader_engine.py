"""Readers of other projects as engines for `harness diff TABLE --engines duckdb,polars` and `harness.compare`.

Engines of harness execute a plan. These readers plan by themselves: each receives the table, the point in its history,
the columns and the filter of a plan, but not the plan's files and deletes.
"""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from functools import cache
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from harness.errors import RequestError, UnsupportedError
from harness.metadata.filters.predicate import Filter
from harness.metadata.iceberg.table import IcebergTable
from harness.metadata.model.schema import CHANGES, arrow_field
from harness.metadata.planned_scan import PlannedScan
from harness.storage.gate import Outside
from harness.storage.paths import is_local, local_path, redact
from harness.storage.records import dataclass
from harness.suite.protocol import predicate
from harness.suite.reader import At, TableAt
from harness.suite.readers import ReaderOptions, open_engine
from harness.suite.scores import convert_types
from harness.suite.workers import Worker
from harness.table import open_table

_WORKERS = ExitStack()
atexit.register(_WORKERS.close)


@cache
def reader_engine(name: str) -> ReaderEngine:
    """Return the reader with a name. It is started once in this process and ends with the process.

    Raises:
        RequestError: The engine is unknown or not installed.
        EngineError: The engine does not start.
    """
    worker = open_engine(name, ReaderOptions(), _WORKERS)
    assert isinstance(worker, Worker), "engines that execute plans are found first"
    return ReaderEngine(worker)


@dataclass(frozen=True, slots=True)
class ReaderEngine:
    """A reader of another project, with the members of `harness.engines.registry.Engine`."""

    worker: Worker

    @property
    def name(self) -> str:
        """The name of the reader."""
        return self.worker.name

    def version(self) -> str:
        """Return the version that the reader reports."""
        return self.worker.version()

    def to_arrow(self, plan: PlannedScan) -> pa.Table:
        """Return the rows in the reader's own types, except that UUIDs as text and maps as lists are converted.

        Raises:
            RequestError: The table is not local, or must not read files outside its roots.
            UnsupportedError: The reader declines the read, the plan reads changes, or it reads the state before the
                first snapshot of a table that has a snapshot now.
            EngineError: The reader refuses the table, crashes, hangs, or returns rows that Arrow cannot read.
        """
        return self.read(plan, {})

    def options(self) -> frozenset[str]:
        """Return the options that the reader supports."""
        return self.worker.options()

    def read(self, plan: PlannedScan, options: Mapping[str, Any]) -> pa.Table:
        """Return the rows with options of the reader protocol.

        The option `union` contains plans. Raises the same errors as `to_arrow`.
        """
        columns = tuple(field.name for field in plan.columns)
        schema = pa.schema([arrow_field(field) for field in plan.columns])
        worker_options = dict(options)
        if "union" in worker_options:
            worker_options["union"] = [self._part(each) for each in worker_options["union"]]
        rows = self.worker.read(
            self._table(plan),
            columns=columns,
            where=_with_plain_names(plan.filter),
            schema=schema,
            options=worker_options,
        )
        return convert_types(rows, schema)[0]

    def _part(self, plan: PlannedScan) -> dict[str, Any]:
        at, where = self._table(plan).at, _with_plain_names(plan.filter)
        return {"at": None if at is None else asdict(at), "where": where, "predicate": predicate(where)}

    def count(self, plan: PlannedScan) -> int:
        """Return the number of rows, as the reader counts them. Raises the same errors as `to_arrow`."""
        return self.worker.count(self._table(plan), where=_with_plain_names(plan.filter))

    def _table(self, plan: PlannedScan) -> TableAt:
        """Return the table of a plan at its snapshot.

        The current snapshot is not named, because some readers support no other snapshot.
        """
        if not is_local(plan.table):
            raise RequestError(
                f"Cannot read {redact(plan.table)} with {self.name}: readers of other projects read local tables only; "
                "copy it first with harness pull",
                table=plan.table,
            )
        roots = plan.storage.roots
        if roots is not None and roots.outside is Outside.REFUSE:
            raise RequestError(
                f"Cannot read {redact(plan.table)} with {self.name}: a reader of another project cannot be restricted "
                "to the table's own files, as untrusted and outside='refuse' require; use duckdb or spark",
                table=plan.table,
            )
        if CHANGES["_change_type"] in plan.schema.fields:
            raise UnsupportedError(f"Cannot read changes with {self.name}: use duckdb or spark", table=plan.table)
        source = open_table(plan.table)._source
        if plan.snapshot is None and source.current is not None:
            raise UnsupportedError(
                f"Cannot read {redact(plan.table)} with {self.name} as it was before its first snapshot: open it again",
                table=plan.table,
            )
        at = None
        if plan.snapshot is not None and (source.current is None or plan.snapshot != source.current.id):
            at = At("version" if plan.format == "delta" else "snapshot_id", plan.snapshot)
        location, metadata_path = os.path.abspath(local_path(plan.table)), None
        if isinstance(source, IcebergTable):
            metadata_path = os.path.abspath(local_path(source.metadata_path))
            location = os.path.dirname(os.path.dirname(metadata_path))
        return TableAt(format=plan.format, location=location, metadata_path=metadata_path, at=at)


_SIMPLE = re.compile(r"[a-z_][a-z0-9_]*")


def _with_plain_names(filter_: Filter | None) -> str | None:
    """Return the filter with quotes only around names that need them, because some readers support no quotes."""
    if filter_ is None:
        return None
    try:
        tree = sqlglot.parse_one(filter_.sql, dialect="duckdb")
    except sqlglot.ParseError:
        return filter_.sql
    for name in tree.find_all(exp.Identifier):
        if _SIMPLE.fullmatch(name.name):
            name.set("quoted", False)
    return tree.sql(dialect="duckdb")
