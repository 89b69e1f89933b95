"""Faults planted in harness, which the fuzzer must find: what a decoder does with a damaged deletion vector."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import fuzz_limits
from pyroaring import BitMap64

from harness.errors import CorruptDeleteError
from harness.iceberg import puffin


def leak() -> None:
    """A KeyError comes out."""

    def do() -> Any:
        raise KeyError("planted")

    _instead(do)


def no_rows_deleted() -> None:
    """The deletes are left out, so that rows come back; their number is not looked at."""
    puffin._check_counts = lambda *_, **__: None
    _instead(BitMap64)


def crash() -> None:
    """The process ends."""
    _instead(os.abort)


def never_end() -> None:
    """It does not come back."""
    fuzz_limits.MOST_SECONDS = 1

    def do() -> Any:
        while True:
            pass

    _instead(do)


def _instead(do: Callable[[], Any]) -> None:
    decode = puffin.decode_deletion_vector

    def planted(blob: bytes) -> Any:
        try:
            return decode(blob)
        except CorruptDeleteError:
            return do()

    puffin.decode_deletion_vector = planted
