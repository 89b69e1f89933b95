"""A finding made small: fewer mutations, changed bytes and other files, as long as it stays the same finding."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from fuzz_subjects import Changes, Image

_MOST_TO_ALIGN = 4000
T = TypeVar("T")

Hunk = tuple[int, int, bytes]
"""Bytes of a file from one place to another, and what takes their place."""


class OutOfTriesError(Exception):
    """Smaller would take too long."""


class Shrinker:
    """Tries smaller changes of a table.

    image: as it was. shows: whether changes still are the same finding; asked at most `tries` times, and not again
    after so many seconds.
    """

    def __init__(self, image: Image, shows: Callable[[Changes], bool], tries: int = 300, seconds: float = 60) -> None:
        self._image = image
        self._shows = shows
        self._tries = tries
        self._end = time.monotonic() + seconds
        self.best: dict[str, bytes | None] = {}

    def shrink(self, candidates: Sequence[Changes]) -> dict[str, bytes | None]:
        """The smallest changes found, `{}` if none of the candidates shows anything. candidates: smallest last."""
        try:
            for changes in candidates:
                self._try(changes)
            if self.best:
                self._fewer_files_changed()
                for name in list(self.best):
                    self._fewer_bytes(name)
                self._fewer_files()
        except OutOfTriesError:
            pass
        return self.best

    def _try(self, changes: Changes) -> bool:
        if self._tries == 0 or time.monotonic() > self._end:
            raise OutOfTriesError
        self._tries -= 1
        shown = self._shows(changes)
        if shown:
            self.best = dict(changes)
        return shown

    def _fewer_files_changed(self) -> None:
        whole = dict(self.best)
        minimal(list(whole), lambda kept: self._try({name: whole[name] for name in kept}))

    def _fewer_bytes(self, name: str) -> None:
        before, after = self._image.get(name), self.best[name]
        if before is None or after is None:
            return
        rest = {key: value for key, value in self.best.items() if key != name}
        minimal(hunks(before, after), lambda kept: self._try({**rest, name: patched(before, kept)}))

    def _fewer_files(self) -> None:
        """Files that are not changed are taken away, where the finding does not need them."""
        changed = dict(self.best)
        others = [name for name in self._image if name not in changed]
        minimal(others, lambda kept: self._try({**changed, **{n: None for n in others if n not in kept}}))


def minimal(parts: Sequence[T], works: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Some of the parts with which it works, and without any single one of which it does not (delta debugging)."""
    size = len(parts)
    while parts and size:
        for start in range(0, len(parts), size):
            fewer = [*parts[:start], *parts[start + size :]]
            if works(fewer):
                parts = fewer
                break
        else:
            size //= 2
        size = min(size, len(parts))
    return parts


def hunks(before: bytes, after: bytes) -> list[Hunk]:
    """The differences of two files, from the front to the back, none touching another."""
    if len(before) == len(after):
        return [
            (start, end, after[start:end]) for start, end in _runs(i for i, b in enumerate(before) if b != after[i])
        ]
    if max(len(before), len(after)) <= _MOST_TO_ALIGN:
        matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
        return [(i1, i2, after[j1:j2]) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"]
    head = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    most = min(len(before), len(after)) - head
    tail = next((i for i in range(most) if before[-1 - i] != after[-1 - i]), most)
    return [(head, len(before) - tail, after[head : len(after) - tail])]


def patched(before: bytes, chosen: Iterable[Hunk]) -> bytes:
    """The file with some of its hunks applied."""
    out, at = [], 0
    for start, end, text in chosen:
        out += [before[at:start], text]
        at = end
    return b"".join((*out, before[at:]))


def _runs(places: Iterable[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for place in places:
        if runs and runs[-1][1] == place:
            runs[-1] = (runs[-1][0], place + 1)
        else:
            runs.append((place, place + 1))
    return runs
