"""Reduction of a finding to fewer mutations, changed bytes, and changed files, as long as it stays the same finding."""

import time
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from typing import TypeVar

from fuzz_subjects import Changes, Image

_MOST_TO_ALIGN = 4000
T = TypeVar("T")

Hunk = tuple[int, int, bytes]
"""The start and end of a part of a file, and the bytes that replace it."""


def shrink(
    image: Image, candidates: Sequence[Changes], shows: Callable[[Changes], bool], tries: int = 300, seconds: float = 60
) -> Changes:
    """Return the smallest changes of a table that still are the finding, or `{}` if none of the candidates is.

    Args:
        image: The original files.
        candidates: The changes to reduce, smallest last.
        shows: A function that returns whether changes still are the same finding.
        tries: The maximum number of calls of `shows`.
        seconds: The time after which `shows` is not called again.
    """
    end = time.monotonic() + seconds
    best: Changes = {}

    def works(changes: Changes) -> bool:
        nonlocal best, tries
        tries -= 1
        if tries < 0 or time.monotonic() > end or not shows(changes):
            return False
        best = changes
        return True

    for changes in candidates:
        works(changes)
    whole = best
    minimal(list(whole), lambda subset: works({name: whole[name] for name in subset}))
    changed = best
    others = [name for name in image if name not in changed and changed]
    minimal(others, lambda subset: works({**changed, **{n: None for n in others if n not in subset}}))
    for name in best:
        before, after, rest = image.get(name), best[name], best
        if before is not None and after is not None:
            minimal(hunks(before, after), lambda subset: works({**rest, name: apply_hunks(before, subset)}))  # noqa: B023
    return best


def minimal(parts: Sequence[T], works: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Return parts for which `works` is true, and false if any single part is removed (delta debugging)."""
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
    """Return the differences of two files in order. They do not touch each other."""
    if len(before) == len(after):
        places = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        return [(i, i + 1, after[i : i + 1]) for i in places]
    if max(len(before), len(after)) <= _MOST_TO_ALIGN:
        matcher = SequenceMatcher(None, before, after, autojunk=False)
        return [(i1, i2, after[j1:j2]) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"]
    most = min(len(before), len(after))
    head = next((i for i in range(most) if before[i] != after[i]), most)
    tail = next((i for i in range(most - head) if before[-1 - i] != after[-1 - i]), most - head)
    return [(head, len(before) - tail, after[head : len(after) - tail])]


def apply_hunks(before: bytes, selection: Iterable[Hunk]) -> bytes:
    """Return the file with some of its hunks applied."""
    out, at = [], 0
    for start, end, text in selection:
        out += [before[at:start], text]
        at = end
    return b"".join((*out, before[at:]))
