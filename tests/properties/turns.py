"""The engines that read a drawn table: every engine reads some tables, and no run takes hours.

A read on Spark takes a hundred times as long as a read on DuckDB.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drawn.agreement import DrawnRead
from drawn.profiles import QUICK, current_profile
from drawn.reads import ReadShape, Shape, reads_of
from drawn.strategies import DrawnHistory

from harness.errors import UnsupportedError


@dataclass(slots=True)
class Turns:
    """The selection of engines for the tables of one test, and the reads that Spark refused."""

    read_by_spark: int = 0
    refused_by_spark: int = 0

    def __iter__(self) -> Iterator[int]:
        """Count the reads of a table: 2 in plain pytest, 3 with a fresh seed."""
        return iter(range(2 if current_profile() == QUICK else 3))

    def rows(self, read: DrawnRead, engines: Sequence[str], number: int) -> dict[str, Any]:
        """Return the rows of each engine that reads the table now.

        DuckDB reads every time, and Spark the first time. The oracle reads with a fresh seed, if the read is not a
        query: the oracle has no SQL.

        Args:
            read: the read.
            engines: the engines to choose from.
            number: the number of earlier reads of the same table.
        """
        rows = {}
        for engine in engines:
            if engine == "spark" and number > 0:
                continue
            if engine == "oracle" and (current_profile() == QUICK or not isinstance(read.shape, ReadShape)):
                continue
            self.read_by_spark += engine == "spark"
            try:
                rows[engine] = read.by(engine)
            except UnsupportedError:  # only Spark may refuse
                self.refused_by_spark += 1
        return rows

    @property
    def most_refused(self) -> int:
        """The number of reads that Spark may refuse: 2 of 100, and at least 1."""
        return max(1, self.read_by_spark // 50)


def features(drawn: DrawnHistory, shape: Shape) -> list[str]:
    """Return the names of the features that a table has, and of the deletes that hide rows of a read of the table."""
    hiding = sorted(frozenset[str]().union(*(drawn.model.hiding(read.at) for read in reads_of(shape))))
    names = ["deletes hide rows", *hiding] if hiding else []
    return [*names, "several row groups in a file"] if any(map(_has_groups, drawn.operations)) else names


def _has_groups(operation: Mapping[str, Any]) -> bool:
    """Return whether an operation writes a file that has more rows than one of its row groups."""
    ((_, value),) = operation.items()
    files = value.get("files", value.get("add", ())) if isinstance(value, dict) else value
    files = files if isinstance(files, list) else ()
    return any(isinstance(f, dict) and len(f.get("rows", ())) > f.get("row-group-size", 1 << 20) for f in files)
