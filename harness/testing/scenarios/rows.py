"""Rows of a scenario: a list of them, or a mapping that counts them.

    rows: [[1, x], {id: 2, name: y}]
    rows: {count: 6000, row: ['{i}', 'name {i}'], from: 0, except: [0, 5999]}

`{i}` stands for the number of the row, counted from `from` (0 if it is left out); a text that is nothing else becomes
that number, in other texts it becomes its digits. `except` leaves numbers out; so do ranges in it: [[100, 199]].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.testing.scenarios.arguments import Arguments, checked


def expanded(rows: Any, place: str) -> list[Any]:
    """The rows, counted ones written out.

    Raises:
        RequestError: they have neither form.
    """
    if not isinstance(rows, Mapping):
        return checked(list, rows, place)
    given = Arguments(rows, place)
    count, start = given.integer("count"), given.of(int, "from", 0)
    row = given.any("row")
    omitted = _omitted(given.of(list, "except", []), place)
    given.finish()
    return [_filled(row, i) for i in range(start, start + count) if i not in omitted]


def _omitted(entries: list[Any], place: str) -> set[int]:
    numbers: set[int] = set()
    for entry in entries:
        first, last = (entry, entry) if isinstance(entry, int) else checked(list, entry, f"{place}, key 'except'")
        numbers.update(range(checked(int, first, place), checked(int, last, place) + 1))
    return numbers


def _filled(value: Any, i: int) -> Any:
    match value:
        case "{i}":
            return i
        case str():
            return value.replace("{i}", str(i))
        case Mapping():
            return {key: _filled(item, i) for key, item in value.items()}
        case list() | tuple():
            return [_filled(item, i) for item in value]
        case _:
            return value
