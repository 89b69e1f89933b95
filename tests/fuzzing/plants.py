"""Faults planted in harness, which the fuzzer must find: in a decoder of deletion vectors, and with answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import fuzz_limits
from pyroaring import BitMap64

from harness.errors import CorruptDeleteError
from harness.metadata.catalogs import unity_rest
from harness.metadata.delta import segment
from harness.metadata.iceberg import position_deletes
from harness.tools.contained import reading


def leak() -> None:
    """A KeyError comes out."""

    def do(error: CorruptDeleteError) -> Any:
        raise KeyError("planted")

    _instead(do)


def no_rows_deleted() -> None:
    """The deletes are left out, so that rows come back; their number is not looked at."""
    position_deletes._check_counts = lambda *_, **__: None
    _instead(lambda _: BitMap64())


def end_or_never_end() -> None:
    """The process ends where values do not ascend, and does not come back where anything else is wrong."""
    fuzz_limits.MOST_SECONDS = 1

    def do(error: CorruptDeleteError) -> Any:
        if "ascend" in str(error):
            os.abort()
        while True:
            pass

    _instead(do)


def gaps_are_passed_over() -> None:
    """A commit that the listing lacks is left out of the table's history."""
    segment._check_chain = lambda *_: None
    segment._commits = lambda listing, base, last: tuple(
        commit for version, commit in listing.commits.items() if segment._after(base) <= version <= last
    )


def answers_are_believed() -> None:
    """Parts that an answer of Unity Catalog must have are taken out of it, whether they are there or not."""
    unity_rest._of = lambda answer, key, _: answer[key]


def texts_are_shown_as_they_are() -> None:
    """The texts of a worker's error keep their control characters."""
    reading.visible = lambda text: text


def _instead(do: Callable[[CorruptDeleteError], Any]) -> None:
    decode = position_deletes.decode_deletion_vector

    def planted(blob: bytes, **given: Any) -> Any:
        try:
            return decode(blob, **given)
        except CorruptDeleteError as error:
            return do(error)

    position_deletes.decode_deletion_vector = planted
