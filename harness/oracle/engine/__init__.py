"""The oracle: a `ScanPlan` run in plain Python, row by row; slow, and meant to be seen to be right.

    to_arrow(plan)      the rows, in the plan's exact Arrow types
    name, version()     as `harness.engines.registry.Engine` wants them

Below the plan it shares nothing with the other engines but the spelling of variants (`variants`):

    files, parquet_file, orc_file, avro_file, stored    bytes → columns and rows as stored
    columns, conversions, variants, conflicts           what a table's field is in one file
    positions, bitmaps, equality                        deletes, as sets
    metadata                                            where a row is
    filters, sql_types, sql_text, arithmetic            the filter, in three-valued logic
    reading, results                                    the way of a row from file to Arrow
"""

import platform

from harness.oracle.engine.reading import to_arrow

__all__ = ["name", "to_arrow", "version"]

name = "oracle"


def version() -> str:
    """The version of Python, which runs the plans."""
    return f"Python {platform.python_version()}"
