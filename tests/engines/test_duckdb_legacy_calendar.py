"""Files in the calendar of old Spark versions (delta T20): values that would be off are refused, all others read."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness.testing.writing.delta.builder import DeltaTable

DATES, INT96, VERSION = (f"org.apache.spark.{key}" for key in ("legacyDateTime", "legacyINT96", "version"))


SCHEMA = {"d": "date", "s": "struct<t: timestamp>", "n": "timestamp_ntz"}


def row(day: date, at: datetime) -> dict[str, Any]:
    return {"d": day, "s": {"t": at}, "n": at.replace(tzinfo=None)}


def table_of(folder: Path, day: date, at: datetime, footer: dict[str, str], *, int96: bool = False) -> harness.Table:
    """A table with one row, whose file is written anew with `footer` among its key-value metadata."""
    table = DeltaTable.create(folder / "t", SCHEMA, features=["timestampNtz"])
    handle = table.write_data([row(day, at)])
    rows = pq.read_table(handle.file)
    pq.write_table(rows.replace_schema_metadata(footer), handle.file, use_deprecated_int96_timestamps=int96)
    table.append(handle)
    return harness.open_table(str(folder / "t"))


OLD_DAY, NEW_DAY = date(1582, 10, 4), date(1582, 10, 15)
OLD_TIME, NEW_TIME = datetime(1899, 12, 31, 23, 59, tzinfo=UTC), datetime(1900, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("footer", "int96"),
    [
        pytest.param({DATES: "", VERSION: "3.5.1"}, False, id="legacy-mode"),
        pytest.param({VERSION: "2.4.8"}, False, id="spark-2"),
        pytest.param({INT96: "", VERSION: "3.5.1"}, True, id="legacy-int96"),
    ],
)
def test_old_timestamps_are_refused_and_new_ones_read(tmp_path: Path, footer: dict[str, str], int96: bool) -> None:
    old = table_of(tmp_path / "old", NEW_DAY, OLD_TIME, footer, int96=int96)
    with pytest.raises(harness.EngineError, match=r"Column t has .* in the calendar of an old writer"):
        old.snapshot().to_arrow(columns=["s"])
    assert old.snapshot().to_arrow(columns=["d"]).to_pylist() == [{"d": NEW_DAY}]  # a column that is right
    if not int96:  # which has no zone to lack
        assert old.snapshot().to_arrow(columns=["n"]).to_pylist() == [{"n": OLD_TIME.replace(tzinfo=None)}]
    new = table_of(tmp_path / "new", NEW_DAY, NEW_TIME, footer, int96=int96)
    assert new.snapshot().to_arrow().to_pylist() == [row(NEW_DAY, NEW_TIME)]


@pytest.mark.parametrize("footer", [{}, {VERSION: "3.0.0"}, {INT96: ""}], ids=["unmarked", "spark-3", "int96-only"])
def test_files_in_the_new_calendar_hold_any_date(tmp_path: Path, footer: dict[str, str]) -> None:
    rows = table_of(tmp_path, OLD_DAY, OLD_TIME, footer).snapshot().to_arrow()
    assert rows.to_pylist() == [row(OLD_DAY, OLD_TIME)]
    assert rows.schema.field("s").type == pa.struct([("t", pa.timestamp("us", "UTC"))])
