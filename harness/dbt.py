"""A plug-in of dbt-duckdb: tables of a catalog as sources.

In `profiles.yml`:

    plugins:
      - module: harness.dbt
        config:
          catalog: path/to/warehouse   # or the name of a catalog that is configured for PyIceberg
          tables: [sales.orders]       # without it, all

Each namespace is a schema then, so that a source names it with `schema: sales`; filters of models reach the files' row
groups. A source whose `meta` says `plugin: dbt` and `location: …` is loaded by itself, from a path, a URI or a
catalog's name, as a table of the database that is dbt's (`materialization: view` keeps the rows in memory).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa
from dbt.adapters.duckdb.plugins import BasePlugin
from dbt.adapters.duckdb.utils import SourceConfig

from harness.connections.connection import plan_views
from harness.engines.duckdb.engine import AttachedTables, attach
from harness.errors import RequestError
from harness.table import open_table


class Plugin(BasePlugin):  # type: ignore[misc]  # of a package that is not there to be checked
    """The plug-in that dbt-duckdb makes of this module.

    Its configuration: `catalog`, a catalog's name, a warehouse directory, or locations by name; `tables`, a list of
    names, or all; `options`, keyword arguments of `harness.open_table`.
    """

    def initialize(self, plugin_config: Mapping[str, Any]) -> None:
        """Takes the configuration; nothing is opened yet."""
        self._catalog = plugin_config.get("catalog")
        self._tables = plugin_config.get("tables")
        self._options = dict(plugin_config.get("options") or {})
        self._attached = AttachedTables({})
        if self._tables is not None and self._catalog is None:
            raise RequestError("Invalid configuration of the plug-in harness.dbt: `tables` wants a `catalog`")

    def configure_connection(self, conn: duckdb.DuckDBPyConnection) -> None:
        """Makes the views, with the tables as they are now: one version for the whole run."""
        if self._catalog is not None:
            plans = plan_views(self._catalog, self._tables, self._options)
            self._attached = attach(plans, conn)

    def configure_cursor(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Lets a cursor use the views: each model runs on one of its own."""
        self._attached.bind(cursor)

    def load(self, source_config: SourceConfig) -> pa.Table | pa.RecordBatchReader:
        """The rows of a source that says a location, or a name in the plug-in's catalog, with `location`."""
        location = source_config.get("location")
        if location is None:
            raise RequestError(f"Source {source_config.name} has no location: say `location` in its meta")
        snapshot = open_table(location, **self._options).snapshot()
        if source_config.get("materialization", self.default_materialization()) == "view":
            return snapshot.to_arrow()
        return pa.RecordBatchReader.from_stream(snapshot)
