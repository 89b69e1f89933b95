"""What `harness diff` asks of the comparer: the sides, the engines, and how rows are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import typer

import harness
from harness.cli import options
from harness.differ.relaxations import Relaxations
from harness.differ.result import ComparisonResult
from harness.differ.sources import RowSource
from harness.engines.registry import find_engine
from harness.snapshot import Snapshot, called

ENGINES = "duckdb,spark"
Side: TypeAlias = Snapshot | RowSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is compared, and how, but for the sides.

    engines: of the left and of the right side. keys, columns, group_by: None: not given.
    """

    engines: tuple[str, str]
    keys: list[str] | None
    columns: list[str] | None
    where: str | None
    max_rows: int
    relaxations: Relaxations
    group_by: list[str] | None
    sample_keys: int | None

    def compare(self, left: Side, right: Side) -> ComparisonResult:
        """The rows of two snapshots."""
        return harness.compare(
            left,
            right,
            engines=self.engines,
            columns=self.columns,
            where=self.where,
            **self._how(),
        )

    def _how(self) -> dict[str, Any]:
        return {
            "keys": self.keys or (),
            "max_rows": self.max_rows,
            "relaxations": self.relaxations,
            "group_by": self.group_by or (),
            "sample_keys": self.sample_keys,
        }

    def compare_queries(self, queries: tuple[str, str], left: Side, right: Side) -> ComparisonResult:
        """What queries give on the left and on the right side.

        Raises:
            RequestError: the query cannot be parsed, or writes.
            UnsupportedError: it has no meaning on Spark that is certain to be the same; that is no difference.
        """
        asked = zip(queries, (left, right), strict=True)
        sides = [s.asking(text) if isinstance(s, RowSource) else harness.Query(text, {"t": s}) for text, s in asked]
        names = [f"query on {_name(side)}" for side in (left, right)]
        return harness.compare(*sides, engines=self.engines, names=names, **self._how())


def _name(side: Side) -> str:
    return side.name if isinstance(side, RowSource) else called(side.source.location, side.name)


def pair_of_engines(text: str) -> tuple[str, str]:
    """Names of the left and the right side's engine.

    Raises:
        typer.BadParameter: neither one name nor two. Whether there is such an engine is said by `find_engine`.
    """
    match [name.strip() for name in text.split(",")]:
        case [both] if both:
            return both, both
        case [left, right] if left and right:
            return left, right
        case _:
            raise typer.BadParameter(f"--engines {text!r}: expected one name, or two with a comma between them")


def pair_of_moments(values: list[str] | None) -> tuple[options.Selector, options.Selector]:
    """What is read of the left and of the right table.

    Raises:
        typer.BadParameter: more than two values, or one that is not understood.
    """
    both = pair(values, "--at")
    if both is None:
        return options.Selector(), options.Selector()
    return options.moment(both[0]), options.moment(both[1])


def pair(values: list[str] | None, option: str) -> tuple[str, str] | None:
    """What is said of the left and of the right side; None: nothing.

    Raises:
        typer.BadParameter: more than two values.
    """
    match values or []:
        case []:
            return None
        case [both]:
            return both, both
        case [left, right]:
            return left, right
        case more:
            raise typer.BadParameter(
                f"{option} is given {len(more)} times: once holds for both sides, twice for one each"
            )


def start(engines: tuple[str, ...]) -> None:
    """Make sure that the engines are there, because one that is missing says nothing about the table.

    Raises:
        RequestError: there is no such engine, or it, or Java, is not installed.
        EngineError: Spark does not start.
    """
    for name in dict.fromkeys(engines):
        find_engine(name)
    if "spark" in engines:
        harness.spark_session()
