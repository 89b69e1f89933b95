"""SQLite and Postgres as sides of a comparison, with DuckDB's own extensions and a server that the test starts.

The extensions and the server are packages: `nox -s tests-external -- databases`.
"""

import datetime
import os
import sqlite3
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from harness.writing.iceberg.builder import IcebergTable

pytestmark = pytest.mark.external

AT = datetime.datetime(2024, 5, 5, 8, 0, 0, 123_000)
ROWS = [
    {"id": 1, "region": "eu", "total": Decimal("10.25"), "at": AT, "flag": True, "price": 0.1, "day": AT.date()},
    {"id": 2},
    {"id": 3, "region": "us", "total": Decimal("0.10"), "at": AT, "flag": False, "price": 1e300, "day": AT.date()},
]
TABLE = (
    "orders (id BIGINT PRIMARY KEY, region {text}, total NUMERIC(9, 2), at TIMESTAMP, flag BOOLEAN, price {real}, "
    "day DATE)"
)
VALUES = (
    "(1, 'eu ', 10.25, '2024-05-05 08:00:00.123', {true}, 0.1, '2024-05-05'), "
    "(2, NULL, NULL, NULL, NULL, NULL, NULL), "
    "(3, 'us', 0.1, '2024-05-05 08:00:00.123', {false}, 1e300, '2024-05-05')"
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory where DuckDB has both extensions."""
    import duckdb

    (tmp_path / "home").mkdir()
    with duckdb.connect(config={"home_directory": str(tmp_path / "home")}) as connection:
        for name in ("sqlite_scanner", "postgres_scanner"):
            package = pytest.importorskip(
                f"duckdb_extension_{name}", reason=f"duckdb-extension-{name} is not installed"
            )
            (file,) = Path(package.__path__[0]).rglob(f"{name}.duckdb_extension")
            connection.execute(f"INSTALL '{file}'")
    return tmp_path / "home"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    schema = {"id": "long", "region": "string", "total": "decimal(9,2)", "at": "timestamp", "flag": "boolean"}
    t = IcebergTable.create(tmp_path / "t", schema | {"price": "double", "day": "date"})
    t.append(t.write_data(ROWS))
    return tmp_path / "t"


def diff(home: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "harness", "diff", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HOME": str(home)}, check=False)
    return done.returncode, done.stdout + done.stderr


def test_sqlite_from_databases(home: Path, table: Path, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "old.sqlite") as connection:
        connection.execute("CREATE TABLE " + TABLE.format(text="TEXT", real="REAL"))
        connection.execute("INSERT INTO orders VALUES " + VALUES.format(true=1, false=0))
    place = f"sqlite:{tmp_path}/old.sqlite"
    trimmed = "SELECT * REPLACE (trim(region) AS region) FROM orders"
    code, said = diff(home, f"{place}#{trimmed}", str(table), "--keys", "id")
    assert (code, "reconciled types: nearest float" in said, "reconciled types: truth" in said) == (0, True, True), said
    assert diff(home, f"{place}#orders", str(table), "--keys", "id")[0] == 1
    assert diff(home, f"{place}#SELECT count(*) AS n FROM orders", "duckdb:#SELECT 3 AS n")[0] == 0
    code, said = diff(home, f"{place}#nothing", str(table))
    assert (code, "Cannot read old.sqlite#nothing" in said) == (2, True), said


def test_postgres_from_databases(home: Path, table: Path, tmp_path: Path) -> None:
    server = pytest.importorskip("pgserver", reason="pgserver is not installed").get_server(tmp_path / "server")
    try:
        server.psql("CREATE TABLE " + TABLE.format(text="CHAR(3)", real="FLOAT8") + ";")
        server.psql("INSERT INTO orders VALUES " + VALUES.format(true="TRUE", false="FALSE") + ";")
        assert diff(home, f"postgres:{server.get_uri()}#public.orders", str(table), "--keys", "id")[0] == 1
        trimmed = "SELECT * REPLACE (trim(region) AS region) FROM public.orders"
        code, said = diff(home, f"postgres:{server.get_uri()}#{trimmed}", str(table), "--keys", "id")
        assert code == 0, said
        code, said = diff(home, f"postgres:{server.get_uri()}#none", str(table))
        assert (code, "Cannot read postgres#none" in said) == (2, True), said
    finally:
        server.cleanup()
    code, said = diff(home, "postgres:host=/nowhere password=secret#public.orders", str(table))
    assert (code, "secret" in said, said.count("\n")) == (2, False, 1), said
