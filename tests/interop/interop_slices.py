"""Slices read by the reference implementations: the rows of the source, and an appended row."""

from collections import Counter
from pathlib import Path
from typing import Any

import harness
from harness.suite.scenarios.building import build
from harness.suite.scenarios.loading import find

WAYS: dict[str, dict[str, Any]] = {
    "whole": {"last": 3},
    "sample": {"sample_rows": 2},
    "exact": {"where": "true", "exact": True},
}


def check(name: str, place: Path, spark: Any, format_: str, counted: Counter[str]) -> None:
    """Pull a scenario's table with each option, read it with the reference's reader, and append a row."""
    (scenario,) = find(name)
    source = harness.open_table(build(scenario, place / "source").address)
    for way, options in WAYS.items():
        pulled = source.pull(place / way, **options)
        reader = spark.read.format(format_)
        assert_same(harness.open_table(place / way), reader.load(str(place / way)))
        if way == "whole":
            assert_same(source, reader.load(str(place / way)))
            for point in pulled.snapshots:
                then = spark.read.format(format_).option("versionAsOf", point).load(str(place / way))
                assert_same(source.snapshot(point), then)
        counted[f"slices that {format_}'s reader reads, {way}"] += 1
        rows = reader.load(str(place / way)).limit(1)
        more = spark.createDataFrame(rows.collect(), rows.schema)
        if more.count() == 1:
            before = harness.open_table(place / way).snapshot().to_arrow().num_rows
            more.write.format(format_).mode("append").save(str(place / way))
            after = harness.open_table(place / way)
            assert after.snapshot().to_arrow().num_rows == before + 1
            assert_same(after, spark.read.format(format_).load(str(place / way)))
            counted[f"appends by {format_}'s writer to slices, {way}"] += 1


def assert_same(expected: Any, frame: Any) -> None:
    result = harness.compare(expected, frame, engines=("duckdb", "spark"))
    assert result.equal, result.to_text()
