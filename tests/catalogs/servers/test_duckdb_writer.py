"""Tables that DuckDB's Iceberg extension 1.5.5 writes through the REST catalog, read at each of their versions.

Expected rows are computed by hand, or for drawn histories by plain DuckDB tables with the same changes. `--seed 7`
draws other histories, `--histories 500` draws more.
"""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
import serving

import harness

pytest.importorskip("pyiceberg", reason="PyIceberg is not installed: nox -s tests-external -- catalogs")
pytestmark = pytest.mark.external
Write = Callable[..., harness.Table]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def namespace(rest: str) -> str:
    """A namespace in the catalog for these tables."""
    _written(rest, "run", "CREATE SCHEMA lake.duck")
    return "duck"


@pytest.fixture
def write(rest, namespace, configure) -> Write:
    """A function that runs statements on a new table, named `{t}` in them, and opens it by its name in the catalog."""
    configure("prod", {"uri": rest})
    name = f"t{next(_numbers)}"

    def run(*statements: str) -> harness.Table:
        _written(rest, "run", *(each.replace("{t}", f"lake.{namespace}.{name}") for each in statements))
        return harness.open_table(f"prod.{namespace}.{name}")

    return run


def _written(uri: str, *arguments: str) -> str:
    """Return the output of the writer for some arguments."""
    place = os.environ.get("HARNESS_DUCKDB_WRITER")
    if not place:
        pytest.skip("HARNESS_DUCKDB_WRITER names no directory with duckdb 1.5.5 and its avro, httpfs and iceberg")
    command = [sys.executable, str(Path(__file__).parent / "duckdb_writer.py"), uri, *arguments]
    own = {**os.environ, "PYTHONPATH": place}
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600, env=own)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def rows(snapshot: harness.Snapshot) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in snapshot.to_arrow().to_pylist()), key=repr)


def assert_versions(table: harness.Table, *versions: list[tuple[object, ...]]) -> None:
    """Check the rows of each snapshot on DuckDB and with the oracle."""
    snapshots = [table.snapshot(each["id"]) for each in table.snapshots()]
    assert [rows(each) for each in snapshots] == [sorted(each, key=repr) for each in versions]
    for each in snapshots:
        assert harness.compare(each, each, engines=("oracle", "duckdb")).equal


def test_buckets_are_those_of_the_specification(write: Write) -> None:
    # The hash determines which files a filter skips, so a wrong hash would lose rows.
    table = write(
        "CREATE TABLE {t} (id INTEGER, k VARCHAR) PARTITIONED BY (bucket(4, id), truncate(2, k))",
        "INSERT INTO {t} SELECT i, 'k' || i FROM range(40) r(i)",
        "DELETE FROM {t} WHERE id % 3 = 0",
    )
    alive = [(i, f"k{i}") for i in range(40) if i % 3]
    assert rows(table.snapshot()) == sorted(alive, key=repr)
    for id_, k in alive:
        assert harness.sql(f"SELECT k FROM t WHERE id = {id_} AND k = '{k}'", {"t": table}).fetchall() == [(k,)]


def test_types(write: Write) -> None:
    values = {
        "INTEGER": ("-1", -1),
        "BIGINT": ("9223372036854775807", 2**63 - 1),
        "FLOAT": ("1.5", 1.5),
        "DOUBLE": ("'-inf'", float("-inf")),
        "BOOLEAN": ("true", True),
        "DATE": ("'1969-12-31'", date(1969, 12, 31)),
        "TIME": ("'12:34:56.789'", time(12, 34, 56, 789000)),
        "TIMESTAMP": ("'1969-12-31 23:59:59.999999'", datetime(1969, 12, 31, 23, 59, 59, 999999)),
        "TIMESTAMPTZ": ("'2020-02-29 12:00:00+01'", datetime(2020, 2, 29, 11, tzinfo=UTC)),
        "BLOB": (r"'a\x00'", b"a\0"),
        "UUID": ("'5b7f6d4e-1111-2222-3333-444455556666'", UUID("5b7f6d4e-1111-2222-3333-444455556666")),
        "DECIMAL(38, 10)": ("-0.05", Decimal("-0.0500000000")),
        "INTEGER[]": ("[1, NULL]", [1, None]),
        "STRUCT(a INTEGER, b VARCHAR)": ("{'a': 1, 'b': NULL}", {"a": 1, "b": None}),
        "MAP(VARCHAR, INTEGER)": ("MAP {'k': 1}", [("k", 1)]),
    }
    table = write(
        f"CREATE TABLE {{t}} ({', '.join(f'c{n} {type_}' for n, type_ in enumerate(values))})",
        f"INSERT INTO {{t}} VALUES ({', '.join(text for text, _ in values.values())})",
        "INSERT INTO {t} (c0) VALUES (NULL)",
    )
    written = tuple(value for _, value in values.values())
    assert_versions(table, [written], [written, (None,) * len(values)])


@pytest.mark.parametrize("version", [2, 3])
def test_a_delete_under_another_partition_spec_is_refused_unless_it_is_allowed(write: Write, version: int) -> None:
    """Java 1.12 refuses the vector and returns the row that the position delete file deletes (iceberg 4.3, 4.4, T9)."""
    table = write(
        f"CREATE TABLE {{t}} (id INTEGER, region VARCHAR) WITH ('format-version' = '{version}')",
        "INSERT INTO {t} VALUES (1, 'eu'), (2, 'us')",
        "ALTER TABLE {t} SET PARTITIONED BY (region)",
        "INSERT INTO {t} VALUES (3, 'us')",
        "DELETE FROM {t} WHERE id = 1",
    )
    with pytest.raises(harness.CorruptDeleteError, match="apply it by path with lenient_delete_partition=True"):
        table.snapshot().to_arrow()
    lenient = harness.open_table(table.name, lenient_delete_partition=True)
    assert rows(lenient.snapshot()) == [(2, "us"), (3, "us")]


def test_a_table_in_s3_is_written_and_read_with_credentials_that_the_catalog_vends(tmp_path, configure, aws) -> None:
    properties = serving.s3(aws)
    vended = {f"vend.{key}": value for key, value in {**properties, "s3.path-style-access": "true"}.items()}
    with serving.rest_catalog(tmp_path, "s3://lake/duck", **serving.s3_catalog(properties), **vended) as uri:
        statements = ("CREATE TABLE {t} (id INTEGER, name VARCHAR)", "INSERT INTO {t} VALUES (1, 'a'), (2, NULL)")
        more = ("DELETE FROM {t} WHERE id = 1", "UPDATE {t} SET name = 'z' WHERE id = 2")
        named = [statement.replace("{t}", "lake.sales.orders") for statement in (*statements, *more)]
        _written(uri, "run", "CREATE SCHEMA lake.sales", *named)
        configure("prod", {"uri": uri})
        assert_versions(harness.open_table("prod.sales.orders"), [(1, "a"), (2, None)], [(2, None)], [(2, "z")])


def test_drawn_histories(rest, configure, request) -> None:
    configure("prod", {"uri": rest})
    seed, count = request.config.getoption("--seed"), request.config.getoption("--histories")
    lines = _written(rest, "draw", str(seed), "0", str(count // 2)).splitlines()
    assert len(lines) == count // 2
    for name, steps, states in map(json.loads, lines):
        told = f"--seed {seed}, {name}: {'; '.join(steps)}"
        table = harness.open_table(f"prod.{name}")
        for snapshot_id, expected in states:
            found = harness.sql("FROM t", {"t": table.snapshot(snapshot_id)}).fetchall()
            assert sorted(map(repr, found)) == expected, f"{told}, at {snapshot_id}"
        assert harness.compare(table, table, engines=("oracle", "duckdb")).equal, told
