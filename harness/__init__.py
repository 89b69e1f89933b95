"""Exact scan plans for Iceberg and Delta tables, read by DuckDB and Spark, and comparisons of their results.

    import harness

    orders = harness.open_table("path/to/orders")           # a table directory or a metadata file
    orders.snapshot().plan(where="day = DATE '2024-01-02'")  # the files, their deletes, and the skipped files
    harness.sql("SELECT count(*) FROM orders", {"orders": orders})  # a DuckDB relation
    harness.compare(orders, orders, engines=("duckdb", "spark"))  # the differences between the engines

Data flows in one direction:

    location ─ storage ─▶ format (iceberg | delta) ─▶ Snapshot ─ plan(columns, where) ─▶ ScanPlan ─▶ engine ─▶ rows
                                                                                              rows, rows ─▶ compare

Modules and packages:

    table, snapshot   open_table → Table → Snapshot: the API that most callers need
    planned           open_plan: the rows of a plan that another process made
    types             types of the arguments and results of public functions
    errors            all errors, one class for each cause that a caller can act on
    owners            other distributions that own files of `harness`
    storage/          file access by location, the roots of a table, limits
    metadata/         metadata → ScanPlan, for both formats; read `metadata.plan.scan_plan` first
    engines/          ScanPlan → rows: the registry, code shared by all engines, DuckDB, Spark
    queries/          one SQL text for both engines; `queries.sql` is `harness.sql`
    connections/      SQL with all tables of a catalog by name; `dbt` is a plug-in that uses it
    diff/             rows or plans of two sides → differences and reports; `diff.compare` is `harness.compare`
    check/            checks of a table's metadata, files, and rows against the specification
    trace/            the lives of rows: what brought, carried, changed, and ended them
    slices/           small copies of tables for tests
    untrusted/        reads of untrusted tables in a worker process
    writing/          builders of small tables, written from the specifications
    rules             the numbered rules that errors cite
    suite/            scenarios, the oracle, and the runner that tests readers with them
    testing/          the pytest plug-in, fixtures, and Spark jobs under test
    cli/              the `harness` command

Names are imported on first use, so `import harness` loads no engine.
"""

from __future__ import annotations

TYPE_CHECKING = False  # Importing typing takes 15 ms, during which Ctrl-C would print a traceback.
if TYPE_CHECKING:
    from harness.connections.connection import Connection, attach, connect, detach
    from harness.diff.compare import compare
    from harness.diff.opening import Query
    from harness.diff.plan_result import PlanComparison
    from harness.diff.plans import compare_plans
    from harness.diff.result import ComparisonResult
    from harness.errors import (
        AmbiguousTableError,
        CorruptDeleteError,
        CorruptFileError,
        EncryptedTableError,
        EngineError,
        HarnessError,
        HarnessWarning,
        InvalidTableError,
        IsAViewError,
        LimitError,
        MissingFileError,
        OutsideTableError,
        RequestError,
        SchemaMismatchError,
        SnapshotNotFoundError,
        StorageError,
        TableNotFoundError,
        UnknownColumnError,
        UnsupportedError,
    )
    from harness.metadata.catalogs.catalog import Catalog, TableLocation
    from harness.metadata.catalogs.resolving import open_catalog
    from harness.metadata.catalogs.unity import open_unity
    from harness.metadata.catalogs.warehouse import open_warehouse
    from harness.metadata.plan.scan_plan import ScanPlan
    from harness.planned import open_plan
    from harness.queries.sql import sql
    from harness.slices.pulling import PullResult
    from harness.snapshot import Changes, Snapshot
    from harness.storage.limits import Limits
    from harness.table import Table, open_table
    from harness.testing.jobs.session import spark_session
    from harness.untrusted.bounds import Bounds
    from harness.untrusted.reading import read_untrusted

__version__ = "0.1.0"

__all__ = [
    "AmbiguousTableError",
    "Bounds",
    "Catalog",
    "Changes",
    "ComparisonResult",
    "Connection",
    "CorruptDeleteError",
    "CorruptFileError",
    "EncryptedTableError",
    "EngineError",
    "HarnessError",
    "HarnessWarning",
    "InvalidTableError",
    "IsAViewError",
    "LimitError",
    "Limits",
    "MissingFileError",
    "OutsideTableError",
    "PlanComparison",
    "PullResult",
    "Query",
    "RequestError",
    "ScanPlan",
    "SchemaMismatchError",
    "Snapshot",
    "SnapshotNotFoundError",
    "StorageError",
    "Table",
    "TableLocation",
    "TableNotFoundError",
    "UnknownColumnError",
    "UnsupportedError",
    "__version__",
    "attach",
    "compare",
    "compare_plans",
    "connect",
    "detach",
    "open_catalog",
    "open_plan",
    "open_table",
    "open_unity",
    "open_warehouse",
    "read_untrusted",
    "spark_session",
    "sql",
]

_LAZY = {
    "AmbiguousTableError": "errors",
    "Bounds": "untrusted.bounds",
    "Catalog": "metadata.catalogs.catalog",
    "Changes": "snapshot",
    "ComparisonResult": "diff.result",
    "Connection": "connections.connection",
    "CorruptDeleteError": "errors",
    "CorruptFileError": "errors",
    "EncryptedTableError": "errors",
    "EngineError": "errors",
    "HarnessError": "errors",
    "HarnessWarning": "errors",
    "InvalidTableError": "errors",
    "IsAViewError": "errors",
    "LimitError": "errors",
    "Limits": "storage.limits",
    "MissingFileError": "errors",
    "OutsideTableError": "errors",
    "PlanComparison": "diff.plan_result",
    "PullResult": "slices.pulling",
    "Query": "diff.opening",
    "RequestError": "errors",
    "ScanPlan": "metadata.plan.scan_plan",
    "SchemaMismatchError": "errors",
    "Snapshot": "snapshot",
    "SnapshotNotFoundError": "errors",
    "StorageError": "errors",
    "Table": "table",
    "TableLocation": "metadata.catalogs.catalog",
    "TableNotFoundError": "errors",
    "UnknownColumnError": "errors",
    "UnsupportedError": "errors",
    "attach": "connections.connection",
    "compare": "diff.compare",
    "compare_plans": "diff.plans",
    "connect": "connections.connection",
    "detach": "connections.connection",
    "open_catalog": "metadata.catalogs.resolving",
    "open_plan": "planned",
    "open_table": "table",
    "open_unity": "metadata.catalogs.unity",
    "open_warehouse": "metadata.catalogs.warehouse",
    "read_untrusted": "untrusted.reading",
    "spark_session": "testing.jobs.session",
    "sql": "queries.sql",
}


def __getattr__(name: str) -> object:
    if name in ("errors", "testing", "types"):
        import importlib

        return importlib.import_module(f"harness.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _imported(_LAZY[name], name)


def _imported(module: str, name: str) -> object:
    """Return an object of a module of this package, given by name. The module is imported.

    Raises:
        ImportError: The installation is damaged. The message names the distribution that overwrote the files.
    """
    # Do not cache the name in globals(): the import system sets attributes of this package too, so which value is found
    # would depend on the order of imports.
    try:
        from harness.storage.threads import import_uninterrupted

        return getattr(import_uninterrupted(f"harness.{module}"), name)
    except ImportError as error:
        if not (error.name or "").startswith("harness."):  # a dependency is not installed
            raise
        from harness.owners import overwritten_error

        raise overwritten_error(str(error)) or error from error


def __dir__() -> list[str]:
    return sorted(__all__)
