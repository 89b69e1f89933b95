"""DuckDB's Iceberg extension on a REST catalog named `lake`: runs statements, or draws histories of tables.

It runs in a separate process, because the extension is built for another version of DuckDB than the tests use. The
arguments are the catalog's URI, followed by `run` and statements, or by `draw` with a seed, the number of the first
history, and the number after the last one.
"""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import duckdb

_VALUES: dict[str, Callable[[Random], str]] = {
    "INTEGER": lambda random: str(random.randint(-3, 3)),
    "BIGINT": lambda random: str(random.randint(-(2**40), 2**40)),
    "VARCHAR": lambda random: random.choice(["'a'", "'b'", "''", "'ü€'", f"'{'long ' * 10}'"]),
    "DOUBLE": lambda random: random.choice(["1.5", "-0.0", "'nan'::DOUBLE", "'inf'::DOUBLE"]),
    "DATE": lambda random: random.choice(["DATE '1969-12-31'", "DATE '2024-02-29'"]),
    "DECIMAL(9, 2)": lambda random: str(random.randint(-500, 500) / 4),
    "TIMESTAMP": lambda random: f"TIMESTAMP '{random.choice(['1969-12-31 23:59:59.999999', '2024-02-29 12:00:00'])}'",
    "BOOLEAN": lambda random: random.choice(["true", "false"]),
    "INTEGER[]": lambda random: random.choice(["[1, NULL]", "[]", "[2]"]),
    "STRUCT(x INTEGER, y VARCHAR)": lambda random: random.choice(["{'x': 1, 'y': 'p'}", "{'x': NULL, 'y': NULL}"]),
}
_NESTED = ("INTEGER[]", "STRUCT(x INTEGER, y VARCHAR)")
_TRANSFORMS = {
    "INTEGER": ("{}", "bucket(3, {})", "truncate(2, {})"),
    "BIGINT": ("bucket(3, {})", "truncate(100, {})"),
    "VARCHAR": ("{}", "bucket(3, {})", "truncate(1, {})"),
    "DATE": ("{}", "year({})", "month({})", "day({})"),
    "DECIMAL(9, 2)": ("{}", "bucket(3, {})"),
    "TIMESTAMP": ("year({})", "month({})", "day({})", "hour({})"),
    "BOOLEAN": ("{}",),
}
_MOST_ROWS = 10
_MOST_STEPS = 8


def attached(uri: str) -> duckdb.DuckDBPyConnection:
    """Return a connection to the catalog."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": True})
    for name in ("avro", "httpfs", "iceberg"):
        package = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
        (file,) = package.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    options = "TYPE iceberg, AUTHORIZATION_TYPE 'none'"
    connection.execute(f"ATTACH '' AS lake ({options}, ENDPOINT '{uri}')")
    return connection


class History:
    """A changing table, and an equal plain table in memory that defines the expected rows."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, name: str, random: Random) -> None:
        self.connection, self.random = connection, random
        self.tables = (f"lake.drawn.{name}", f"memory.main.{name}")
        self.steps: list[str] = []
        self.states: dict[int, list[str]] = {}
        kinds = [random.choice(list(_VALUES)) for _ in range(random.randint(1, 4))]
        self.columns = {"id": "INTEGER"} | {f"c{place}": kind for place, kind in enumerate(kinds)}
        chosen = [name for name, kind in self.columns.items() if kind in _TRANSFORMS and random.random() < 0.35]
        parts = [random.choice(_TRANSFORMS[self.columns[name]]).format(name) for name in chosen]
        self.kept = {"id", *chosen}
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        more = f"PARTITIONED BY ({', '.join(parts)})" if parts else ""
        self._define(f"CREATE TABLE {{t}} ({columns})", f"{more} WITH ('format-version' = '{random.choice((2, 3))}')")

    def grow(self) -> None:
        """Change the table several times, or fewer times if the extension itself fails."""
        steps = (self._insert, self._insert, self._insert, self._delete, self._delete, self._update, self._transaction)
        try:
            for _ in range(self.random.randint(2, _MOST_STEPS)):
                self.random.choice((*steps, self._add, self._rename, self._drop))()
        except duckdb.Error as error:  # for example two schemas with the same id
            self.steps.append(str(error))

    def _define(self, statement: str, lake_clause: str = "") -> None:
        """Create or alter both tables. `lake_clause` is appended to the statement for the table in the lake."""
        self.steps.append(f"{statement} {lake_clause}")
        lake, memory = self.tables
        self.connection.execute(self.steps[-1].replace("{t}", lake))
        self.connection.execute(statement.replace("{t}", memory))

    def _write(self, *statements: str) -> None:
        """Run statements, several as one transaction of the lake: DuckDB can write to one database per transaction."""
        before = self._snapshot()
        together = ("BEGIN", *statements, "COMMIT") if len(statements) > 1 else statements
        self.steps += together
        for table, texts in zip(self.tables, (together, statements), strict=True):
            for text in texts:
                self.connection.execute(text.replace("{t}", table))
        after = self._snapshot()
        if after is not None and after != before:  # a statement that changes no row makes no snapshot
            rows = self.connection.execute(f"FROM {self.tables[1]}").fetchall()
            self.states[after] = sorted(map(repr, rows))

    def _snapshot(self) -> int | None:
        newest = f"SELECT arg_max(snapshot_id, sequence_number) FROM iceberg_snapshots({self.tables[0]})"
        return self.connection.execute(newest).fetchall()[0][0]

    def _insert(self) -> None:
        self._write(self._inserting())

    def _delete(self) -> None:
        self._write(f"DELETE FROM {{t}} WHERE {self._condition()}")

    def _update(self) -> None:
        name = self.random.choice(list(self.columns))
        self._write(f"UPDATE {{t}} SET {name} = {self._value(self.columns[name])} WHERE {self._condition()}")

    def _transaction(self) -> None:
        """Delete first: in 1.5.5, the extension's delete misses rows that the same transaction inserted."""
        self._write(f"DELETE FROM {{t}} WHERE {self._condition()}", self._inserting())

    def _add(self) -> None:
        name, kind = f"n{len(self.steps)}", self.random.choice([kind for kind in _VALUES if kind not in _NESTED])
        self._define(f"ALTER TABLE {{t}} ADD COLUMN {name} {kind}")
        self.columns[name] = kind

    def _rename(self) -> None:
        free = [name for name in self.columns if name not in self.kept]
        if free:
            old, new = self.random.choice(free), f"r{len(self.steps)}"
            self._define(f"ALTER TABLE {{t}} RENAME COLUMN {old} TO {new}")
            self.columns = {new if name == old else name: kind for name, kind in self.columns.items()}

    def _drop(self) -> None:
        free = [name for name in self.columns if name not in self.kept]
        if free:
            name = self.random.choice(free)
            self._define(f"ALTER TABLE {{t}} DROP COLUMN {name}")
            del self.columns[name]

    def _inserting(self) -> str:
        rows = [
            f"({', '.join(self._value(kind) for kind in self.columns.values())})"
            for _ in range(self.random.randint(1, _MOST_ROWS))
        ]
        return f"INSERT INTO {{t}} VALUES {', '.join(rows)}"

    def _value(self, kind: str) -> str:
        return "NULL" if self.random.random() < 0.15 else _VALUES[kind](self.random)

    def _condition(self) -> str:
        number = self.random.randint(-3, 3)
        return self.random.choice((f"id < {number}", f"id = {number}", "id IS NULL", f"id % 2 = {number % 2}"))


def draw(connection: duckdb.DuckDBPyConnection, seed: int, first: int, end: int) -> None:
    """Print, for each history, its table's name, its steps, and the rows of each snapshot."""
    connection.execute("CREATE SCHEMA IF NOT EXISTS lake.drawn")
    for number in range(first, end):
        history = History(connection, f"d{number}", Random(f"{seed}/{number}"))
        history.grow()
        print(json.dumps([f"drawn.d{number}", history.steps, list(history.states.items())]))


if __name__ == "__main__":
    uri, action, *arguments = sys.argv[1:]
    if action == "draw":
        draw(attached(uri), *map(int, arguments))
    else:
        connection = attached(uri)
        for statement in arguments:  # one statement at a time, so that each one that writes makes a snapshot
            connection.execute(statement)
