"""Strict access to the mappings in a scenario: every key must be read, and values must have the expected type.

Every error names the place (file, step, key), the expected value, and the actual value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from harness.errors import RequestError

_T = TypeVar("_T")
_MISSING: object = object()
_TYPE_TEXTS: dict[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a mapping",
}


class Arguments:
    """A mapping and its place in the scenario.

    Read the known keys, then call `finish`, which rejects the remaining keys.
    """

    def __init__(self, mapping: object, place: str) -> None:
        if not isinstance(mapping, Mapping):
            raise RequestError(f"Invalid {place}: expected a mapping, got {short_repr(mapping)}")
        wrong = [key for key in mapping if not isinstance(key, str)]
        if wrong:
            raise RequestError(f"Invalid key {wrong[0]!r} in {place}: expected text; quote it")
        self.place = place
        self._remaining = dict(mapping)

    def has(self, key: str) -> bool:
        """Return whether the key exists and was not read yet."""
        return key in self._remaining

    def any(self, key: str, default: object = _MISSING) -> Any:
        """Return the value of a key, which is required unless there is a default."""
        if key not in self._remaining:
            if default is _MISSING:
                raise RequestError(f"Missing key {key!r} in {self.place}")
            return default
        return self._remaining.pop(key)

    def typed(self, kind: type[_T], key: str, default: Any = _MISSING) -> _T:
        """Return the value of a key, which must have this type. Null counts as a default of None."""
        value = self.any(key, default)
        if value is None and default is None:
            return default  # type: ignore[return-value]  # the caller says so
        return checked(kind, value, f"{self.place}, key {key!r}") if value is not default else value

    def text(self, key: str) -> str:
        """Return a required text."""
        return self.typed(str, key)

    def integer(self, key: str) -> int:
        """Return a required integer."""
        return self.typed(int, key)

    def texts(self, key: str, default: object = _MISSING) -> Any:
        """Return a list of texts. A single text becomes a list."""
        value = self.any(key, default)
        if value is default:
            return value
        items = [value] if isinstance(value, str) else value
        return [checked(str, v, f"{self.place}, key {key!r}") for v in checked(list, items, f"{self.place}, {key!r}")]

    def choice(self, key: str, choices: Sequence[str], default: object = _MISSING) -> Any:
        """Return a text that is one of the choices."""
        value = self.any(key, default)
        if value is not default and value not in choices:
            raise RequestError(f"Invalid {key!r} in {self.place}: expected {' or '.join(choices)}, got {value!r}")
        return value

    def rest(self) -> dict[str, Any]:
        """Return all remaining keys with their values."""
        remaining, self._remaining = self._remaining, {}
        return remaining

    def finish(self) -> None:
        """Raise RequestError if keys remain."""
        if self._remaining:
            raise RequestError(f"Unknown key {', '.join(map(repr, self._remaining))} in {self.place}")


def take_all(value: object, place: str, **kinds: object) -> list[Any]:
    """Return the values of a mapping that must have exactly these keys, in this order.

    Each keyword argument is a type or Any, or a tuple of it and a default.

    Raises:
        RequestError: The mapping has another key or lacks one, or a value has another type.
    """
    arguments, values = Arguments(value, place), []
    for name, kind_and_default in kinds.items():
        kind, *default = kind_and_default if isinstance(kind_and_default, tuple) else (kind_and_default,)
        key = name.replace("_", "-")
        values.append(arguments.any(key, *default) if kind is Any else arguments.typed(kind, key, *default))
    arguments.finish()
    return values


def checked(kind: type[_T], value: object, place: str) -> _T:
    """Return the value if it has the type. A bool is not a number, a tuple counts as a list, and any mapping as a dict.

    Raises:
        RequestError: It has another type.
    """
    if kind is list and isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return list(value)  # type: ignore[return-value]  # kind is list
    if kind is dict and isinstance(value, Mapping):
        return dict(value)  # type: ignore[return-value]  # kind is dict
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)  # type: ignore[return-value]  # kind is float
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise RequestError(f"Invalid {place}: expected {_TYPE_TEXTS.get(kind, kind.__name__)}, got {short_repr(value)}")
    return value


def short_repr(value: object) -> str:
    """Return a value as text for messages, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def look_up(values_by_label: Mapping[str, _T], label: Any, kind: str, place: str) -> _T:
    """Return the value with a label.

    Raises:
        RequestError: The label is unknown. The message lists the known labels.
    """
    if label not in values_by_label:
        names = ", ".join(values_by_label) or "none yet"
        raise RequestError(f"Unknown {kind} {label!r} in {place}: known are {names}")
    return values_by_label[label]
