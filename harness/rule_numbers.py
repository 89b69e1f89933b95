"""Numbers of rules, where code that serves both formats breaks one.

Such code (data files, engines, columns by name) cites Iceberg's number. An error about a Delta table must cite Delta's,
or none: `HarnessError.within` asks here.
"""

from __future__ import annotations

from collections.abc import Mapping

_OF_DELTA: Mapping[str, str | None] = {
    "iceberg 1.22": "delta T28",  # types that are not known
    "iceberg 2.14": None,  # codecs of Avro
    "iceberg 2.19": None,  # encryption, which Delta does not speak of
    "iceberg 4.11": None,  # position delete files
    "iceberg 4.19": "delta D9",
    "iceberg 4.25": None,  # equality deletes
    "iceberg 5.1": "delta T11",
    "iceberg 5.2": "delta T7",
    "iceberg 5.3": "delta V1",
    "iceberg 5.6": "delta T11",
    "iceberg 5.10": "delta T8",
    "iceberg 5.12": "delta T23",
    "iceberg 5.21": "delta T2",
    "iceberg 6.14": "delta T17",
    "iceberg 6.15": "delta T26",
    "iceberg 7.2": "delta E9",
    "iceberg 7.3": "delta R12",  # of data files, Delta has Parquet only
    "iceberg 7.4": "delta R12",
    "iceberg 7.5": "delta R12",
    "iceberg 7.6": "delta L45",
}


def in_format(rule: str | None, format: str | None) -> str | None:
    """The rule as a table of that format has it; a rule of Iceberg's that has no like in Delta is None there."""
    if format != "delta" or rule is None or not rule.startswith("iceberg "):
        return rule
    return _OF_DELTA.get(rule)
