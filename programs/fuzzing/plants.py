"""Faults planted in harness that the fuzzer must find: replacements of functions, by name."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import fuzz_limits
from pyroaring import BitMap64

from harness import errors
from harness.errors import CorruptDeleteError
from harness.metadata.catalogs import unity_rest
from harness.metadata.catalogs.catalog import TableLocation
from harness.metadata.deletes import puffin
from harness.metadata.delta import segment
from harness.metadata.iceberg.server import tasks
from harness.storage.scoped_options import overridden
from harness.untrusted import reading

_decode = puffin.decode_deletion_vector


def _fail_on(do: Callable[[CorruptDeleteError], Any]) -> Callable[..., Any]:
    def planted(blob: bytes, **options: Any) -> Any:
        try:
            return _decode(blob, **options)
        except CorruptDeleteError as error:
            return do(error)

    return planted


def _leak(error: CorruptDeleteError) -> Any:
    raise KeyError("planted")


def _commits(listing: Any, base: Any, last: int) -> tuple[Any, ...]:
    after = segment._first_replayed(base)
    return tuple(commit for version, commit in listing.commits.items() if after <= version <= last)


def _referenced(parser: Any, references: Any, places: Any, size: int, path: str) -> tuple[int, ...]:
    indexes = references if isinstance(references, list) else []
    return tuple(dict.fromkeys(places[index] for index in indexes if type(index) is int and 0 <= index < size))


def _all_options(located: TableLocation, caller_options: Any, *_: Any) -> dict[str, Any]:
    return overridden(located.storage_options, caller_options, located.store)


PLANTS: Mapping[str, tuple[tuple[Any, str, Any], ...]] = {
    "a KeyError comes out": ((puffin, "decode_deletion_vector", _fail_on(_leak)),),
    "deletes are left out": (
        (puffin, "decode_deletion_vector", _fail_on(lambda _: BitMap64())),
        (puffin, "_check_counts", lambda *_, **__: None),
    ),
    "a commit that the listing lacks is passed over": (
        (segment, "_check_chain", lambda *_: None),
        (segment, "_commits", _commits),
    ),
    "parts of a catalog's answer are taken to be there": (
        (unity_rest, "_typed_value", lambda answer, key, _: answer[key]),
    ),
    "indexes of deletes that no answer has are passed over": ((tasks._PlanParser, "_referenced", _referenced),),
    "keys are sent to any address that a catalog names": ((TableLocation, "store_options", _all_options),),
    "texts of a worker keep their control characters": tuple(
        (module, "visible", lambda text: text) for module in (reading, errors)
    ),
}


def end_or_never_end() -> None:
    """Replace code so that the process dies if values do not ascend, and hangs if anything else is wrong."""
    fuzz_limits.MOST_SECONDS = 1

    def do(error: CorruptDeleteError) -> Any:
        if "ascend" in str(error):
            os.abort()
        while True:
            pass

    puffin.decode_deletion_vector = _fail_on(do)
