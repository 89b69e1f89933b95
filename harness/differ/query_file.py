"""A query of a batch, and how its results are compared."""

from __future__ import annotations

from dataclasses import dataclass

from harness.differ.relaxations import NOTHING, Relaxations


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFile:
    """A query, and how its results are compared.

    name: for reports. text: in the dialect of the batch. keys: by which rows are paired; empty: by none.
    """

    name: str
    text: str
    keys: tuple[str, ...] = ()
    relaxations: Relaxations = NOTHING
