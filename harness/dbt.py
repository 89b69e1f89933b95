"""A dbt-duckdb plug-in that makes the tables of a catalog available as sources.

In `profiles.yml`:

    plugins:
      - module: harness.dbt
        config:
          catalog: path/to/warehouse   # or the name of a catalog that is configured for PyIceberg
          tables: [sales.orders]       # all tables if omitted

Each namespace becomes a schema, so a source refers to it with `schema: sales`. Filters in models skip row groups of the
files. A source with `plugin: dbt` and `location: …` in its `meta` is loaded separately, from a path, a URI, or a table
name, and becomes a table of dbt's database (`materialization: view` keeps the rows in memory instead).
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


class Plugin(BasePlugin):  # type: ignore[misc]  # dbt-duckdb is not installed for type checks
    """The plug-in that dbt-duckdb creates from this module.

    The configuration has the keys `catalog` (a catalog's name, a warehouse directory, or a mapping of names to
    locations), `tables` (a list of names; all tables if omitted), and `options` (keyword arguments of
    `harness.open_table`).
    """

    def initialize(self, plugin_config: Mapping[str, Any]) -> None:
        """Store the configuration. No table is opened yet.

        Args:
            plugin_config: The configuration from `profiles.yml`.

        Raises:
            RequestError: The configuration has `tables` but no `catalog`.
        """
        self._catalog = plugin_config.get("catalog")
        self._tables = plugin_config.get("tables")
        self._options = dict(plugin_config.get("options") or {})
        self._attached = AttachedTables({})
        if self._tables is not None and self._catalog is None:
            raise RequestError("Invalid configuration of the plug-in harness.dbt: `tables` needs a `catalog`")

    def configure_connection(self, conn: duckdb.DuckDBPyConnection) -> None:
        """Create views of the tables as they are now, so that a whole dbt run reads one version.

        Args:
            conn: The connection of the dbt run.
        """
        if self._catalog is not None:
            plans = plan_views(self._catalog, self._tables, self._options)
            self._attached = attach(plans, conn)

    def configure_cursor(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Make the views available to a cursor. Each model runs on its own cursor.

        Args:
            cursor: The cursor.
        """
        self._attached.bind(cursor)

    def load(self, source_config: SourceConfig) -> pa.Table | pa.RecordBatchReader:
        """Return the rows of a source that has a `location` in its `meta`.

        Args:
            source_config: The source's configuration. `location` is a path, a URI, or a name in the plug-in's catalog.

        Returns:
            An Arrow table if the source is materialized as a view, otherwise a stream of record batches.

        Raises:
            RequestError: The source has no location.
        """
        location = source_config.get("location")
        if location is None:
            raise RequestError(f"Source {source_config.name} has no location: set `location` in its meta")
        snapshot = open_table(location, **self._options).snapshot()
        if source_config.get("materialization", self.default_materialization()) == "view":
            return snapshot.to_arrow()
        return pa.RecordBatchReader.from_stream(snapshot)
