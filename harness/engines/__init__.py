"""Engines: each turns a `ScanPlan` into rows, in its own way, and knows nothing of table formats.

Read `registry` first: what an engine does, and how one is found. The other modules are what every engine needs of a
plan: `union_arms` sorts its files by how they are read, `file_groups` and `footers` look at them, `column_values` says
where values come from, `data_files` reads what comes in through Arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.engines import oracle
    from harness.engines.duckdb import engine as duckdb
    from harness.engines.registry import Engine
    from harness.engines.spark import engine as spark

    # mypy proves here that the modules keep the protocol.
    _duckdb: Engine = duckdb
    _spark: Engine = spark
    _oracle: Engine = oracle
