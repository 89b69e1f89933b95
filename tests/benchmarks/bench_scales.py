"""How large the tables of a run are, and how often each reader has its turn."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The sizes of a run.

    name: of the scale; only runs of one scale are compared.
    rows: of the tables that are scanned, over all `data_files`, which differ in rows and in the rows of a row group.
    shares: of rows deleted, 0 to 1, where the cost by share is measured; scattered over the file, and in clusters.
    many_files: data files of 100 rows each. planned_files: data files of tables that are only planned. large_files: of
    one more of these, where it is asked for: it takes minutes to make.
    small_tables: tables of some rows, by format. rounds: how often each reader has its turn, after one that does not
    count; up to five times as often while that takes less than a fifth of `figure_s`.
    figure_s: seconds after which a figure has no further round, if it had two.
    turn_s: seconds after which a turn has failed.
    """

    name: str
    rows: int
    data_files: int
    shares: tuple[float, ...]
    many_files: int
    planned_files: tuple[int, ...]
    large_files: int
    small_tables: int
    rounds: int
    figure_s: float
    turn_s: float


FULL = Scale(
    name="full",
    **{"rows": 20_000_000, "data_files": 10, "shares": (0.0001, 0.001, 0.01, 0.1), "many_files": 10_000},
    **{"planned_files": (1_000, 10_000, 100_000), "large_files": 1_000_000, "small_tables": 40},
    **{"rounds": 5, "figure_s": 15, "turn_s": 180},
)
SMALL = Scale(
    name="small",
    **{"rows": 200_000, "data_files": 4, "shares": (0.01,), "many_files": 200},
    **{"planned_files": (1_000,), "large_files": 3_000, "small_tables": 8},
    **{"rounds": 2, "figure_s": 5, "turn_s": 180},
)
"""To see that everything works: the figures of it mean nothing."""
