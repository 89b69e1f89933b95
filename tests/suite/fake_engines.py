"""Engines for `--engine fake_engines:NAME`, each with one fault. They read one Parquet file and no log."""

import os
import signal
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.suite.reader import TableAt, Unsupported


class Fake:
    name = "fake"

    def version(self) -> str:
        return "1.0"

    def capabilities(self) -> frozenset[str] | None:
        return None

    def read(self, table: TableAt, *, columns: tuple[str, ...] | None, where: str | None) -> pa.Table:
        """Return all rows of all files, at every version, including deleted rows."""
        print("a library that talks on standard output")
        files = sorted(Path(table.location).glob("*.parquet"))
        return pa.concat_tables([pq.read_table(file, columns=columns) for file in files])


class Claiming(Fake):
    name = "claiming"

    def capabilities(self) -> frozenset[str] | None:
        return frozenset()


class Raising(Fake):
    """Raises an error for each read."""

    def __init__(self, name: str, error: BaseException) -> None:
        self.name, self.error = name, error

    def read(self, table: TableAt, *, columns: tuple[str, ...] | None, where: str | None) -> pa.Table:
        raise self.error


class Counting(Fake):
    """Returns two rows and counts only the row that is not deleted."""

    name = "counting"

    def read(self, table: TableAt, *, columns: tuple[str, ...] | None, where: str | None) -> pa.Table:
        return pa.table({"id": [1, 2], "_deleted": [True, False]}).select(columns or ("id",))

    def count(self, table: TableAt, *, where: str | None) -> int:
        return 1


class Crashing(Fake):
    name = "crashing"

    def read(self, table: TableAt, *, columns: tuple[str, ...] | None, where: str | None) -> pa.Table:
        if where is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().read(table, columns=columns, where=where)


class Hanging(Fake):
    name = "hanging"

    def read(self, table: TableAt, *, columns: tuple[str, ...] | None, where: str | None) -> pa.Table:
        if where is None:
            time.sleep(600)
        return super().read(table, columns=columns, where=where)


class Panic(BaseException):
    pass


Declining = Raising("declining", Unsupported("no tables today"))
Unwritten = Raising("unwritten", NotImplementedError())
Refusing = Raising("refusing", ValueError("this table\nis odd"))
Panicking = Raising("panicking", Panic("index out of bounds"))
an_instance = Fake()
