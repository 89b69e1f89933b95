"""Faults planted in harness, which the fuzzer must find: what a decoder does with a damaged deletion vector."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import fuzz_limits
from pyroaring import BitMap64

from harness.errors import CorruptDeleteError
from harness.metadata.iceberg import position_deletes as puffin


def leak() -> None:
    """A KeyError comes out."""

    def do(error: CorruptDeleteError) -> Any:
        raise KeyError("planted")

    _instead(do)


def no_rows_deleted() -> None:
    """The deletes are left out, so that rows come back; their number is not looked at."""
    puffin._check_counts = lambda *_, **__: None
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


def _instead(do: Callable[[CorruptDeleteError], Any]) -> None:
    decode = puffin.decode_deletion_vector

    def planted(blob: bytes, **given: Any) -> Any:
        try:
            return decode(blob, **given)
        except CorruptDeleteError as error:
            return do(error)

    puffin.decode_deletion_vector = planted
