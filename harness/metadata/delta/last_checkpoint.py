"""The hint `_last_checkpoint`: where a checkpoint may be, if the hint is sound (delta L6 to L10).

It chooses nothing: everything that it says can be read from the checkpoint itself. Its counts are held against the
checkpoint, which is not believed where the two differ; its other fields (`parts`, `checkpointSchema`, …), which were
wrong in real tables, are not looked at.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from harness.errors import LimitError, MissingFileError
from harness.metadata.delta.log_files import HINT, LOG_DIRECTORY, Hint
from harness.metadata.files.documents import check_document
from harness.storage.gate import IRREGULAR
from harness.storage.limits import DEFAULT, Limits
from harness.storage.paths import join
from harness.storage.records import dataclass
from harness.storage.stores import Storage

_CHECKSUM = "checksum"
_TRIES = 3  # the file is overwritten in place, so one reading can meet half of it


def read_hint(storage: Storage, root: str) -> Hint | None:
    """The hint of the table at `root`; None if there is none, or nothing sound in it (delta L6).

    Raises:
        MissingFileError: something that is no regular file is in its place.
    """
    path = join(root, LOG_DIRECTORY, HINT)
    for _ in range(_TRIES):
        try:
            hint = parse_hint(storage.read(path), limits=storage.limits)
        except MissingFileError as error:
            if error.cause == IRREGULAR:
                raise
            return None
        if hint is not None:
            return hint
    return None


def parse_hint(data: bytes, *, limits: Limits = DEFAULT) -> Hint | None:
    """The hint in a file; None if it is not JSON, has a key twice, wrong types, or a wrong checksum (delta L6, L7).

    One beyond `limits` is none either.
    """
    try:
        check_document(data, file=HINT, limits=limits)
        document = _parse(data)
        version = document.get("version") if isinstance(document, dict) else None
        if not isinstance(version, _Number) or not version.text.isdigit():
            return None
        recorded = document.get(_CHECKSUM)
        sound = recorded is None or recorded == _digest(document)
        if not sound:
            return None
        return Hint(int(version.text), _count(document.get("numOfAddFiles")), _count(document.get("size")))
    except (
        ValueError,
        RecursionError,
        LimitError,
    ):  # as are a lone surrogate, and 5,000 digits
        return None


def _count(value: Any) -> int | None:
    return int(value.text) if isinstance(value, _Number) and value.text.isdigit() else None


@dataclass(frozen=True, slots=True)
class _Number:
    """A JSON number as it was written: the checksum is over its digits."""

    text: str


def _parse(data: bytes) -> Any:
    text = data.decode("utf-8")
    return json.loads(
        text, parse_int=_Number, parse_float=_Number, parse_constant=_reject_constant, object_pairs_hook=_unique
    )


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _digest(document: Any) -> str:
    return hashlib.md5(_canonical(document).encode(), usedforsecurity=False).hexdigest()


def _canonical(document: Any) -> str:
    if isinstance(document, dict):
        document = {key: value for key, value in document.items() if key != _CHECKSUM}
    leaves = sorted(("+".join(path), value) for path, value in _leaves(document, ()))
    return ",".join(f"{path}={value}" for path, value in leaves)


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    match value:
        case dict():
            for key, member in value.items():
                yield from _leaves(member, (*path, _quoted(key)))
        case list():
            for index, member in enumerate(value):
                yield from _leaves(member, (*path, str(index)))
        case str():
            yield path, _quoted(value)
        case _Number():
            yield path, value.text
        case _:
            yield path, json.dumps(value)


def _quoted(text: str) -> str:
    """`text` percent-encoded, but for letters, digits and `-._~`, in quotes."""
    return f'"{quote(text, safe="")}"'
