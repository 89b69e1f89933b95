"""The oracle's entry point `read`.

read(Request(location="warehouse/orders", columns=["region"]))
"""

from __future__ import annotations

import pyarrow as pa

from harness import errors
from harness.suite.oracle.delta import scan_delta
from harness.suite.oracle.delta_changes import scan_delta_changes
from harness.suite.oracle.iceberg import scan_iceberg
from harness.suite.oracle.iceberg_changes import scan_iceberg_changes
from harness.suite.oracle.paths import Files, join
from harness.suite.oracle.reading import rows_of
from harness.suite.oracle.scan import Request, Scan


def read(request: Request, files: Files | None = None) -> pa.Table:
    """Return the rows of a table, in the Arrow types of `types.arrow_type`. `files` of None means local files.

    Raises:
        HarnessError: The table or the request is invalid, or has a feature that the oracle does not support.
    """
    try:
        return rows_of(scan_of(request, files or Files()))
    except errors.HarnessError as error:
        raise error.within(table=request.location) from error.__cause__


def scan_of(request: Request, files: Files) -> Scan:
    """Return the scan of a request. Raises the same errors as `read`."""
    is_delta = files.is_directory(join(request.location, "_delta_log"))
    if not is_delta and request.version is not None:
        raise errors.RequestError("Cannot select a version: Iceberg tables have snapshot ids")
    names = [entry.name for entry in files.entries(join(request.location, "metadata"))] if is_delta else []
    if any(name == "version-hint.text" or name.endswith(".metadata.json") for name in names):
        raise errors.AmbiguousTableError("There is both a Delta log and Iceberg metadata", rule="delta U1")
    if request.changes is not None:
        return scan_delta_changes(request, files) if is_delta else scan_iceberg_changes(request, files)
    return scan_delta(request, files) if is_delta else scan_iceberg(request, files)
