"""What harness has left on a user's connection, taken away."""

from __future__ import annotations

import duckdb

from harness.engines.duckdb import attached, registrations


def release(connection: duckdb.DuckDBPyConnection) -> None:
    """Take away views that were attached, and what other reads have left, but for what the user's own views need."""
    attached.detach(connection)
    registrations.release(connection)
