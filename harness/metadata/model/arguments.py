"""Checks of the arguments of public functions. A value of the wrong type raises an error that names the argument."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import ParamSpec, TypeVar

from harness.errors import RequestError

P = ParamSpec("P")
R = TypeVar("R")


_HALF = re.compile("[\\ud800-\\udfff]")
"""A surrogate: a byte that is not UTF-8, as Python represents it, or half of a character."""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole_text(value: object) -> bool:
    return isinstance(value, str) and (value.isascii() or not _HALF.search(value))


def _is_path(value: object) -> bool:
    return isinstance(value, str | os.PathLike)


def _is_flag(value: object) -> bool:
    return type(value).__name__ in ("bool", "bool_")  # also NumPy's


def _is_number(value: object) -> bool:
    return hasattr(value, "__index__") and not _is_flag(value)


def _items_pass(test: Callable[[object], bool]) -> Callable[[object], bool]:
    """Return a test of the items of a list. Items of an iterator are not tested, because it can be read only once."""

    def listed(value: object) -> bool:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            return False
        return not isinstance(value, Sized) or all(map(test, value))

    return listed


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _is_path_map(value: object) -> bool:
    return (
        isinstance(value, Mapping) and _is_mapping(value) and all(isinstance(target, str) for target in value.values())
    )


def _is_instance_of(name: str) -> Callable[[object], bool]:
    """Return a test for a class of harness, without importing its module.

    If the module has not been imported, no instance of the class can exist.
    """
    module, _, class_name = name.rpartition(".")

    def test(value: object) -> bool:
        class_ = getattr(sys.modules.get(module), class_name, None)
        return class_ is not None and isinstance(value, class_)

    return test


def _is_condition(value: object) -> bool:
    return isinstance(value, str) or _is_instance_of("harness.metadata.filters.predicate.Filter")(value)


def _is_connection(value: object) -> bool:
    return hasattr(value, "sql") and hasattr(value, "execute")


_TEXT = ("text", _is_whole_text)
_FLAG = ("True or False", _is_flag)
_NUMBER = ("a whole number", _is_number)
_NAMES = ("a list of names", _items_pass(_is_text))
_MAPPING = ("a mapping with text keys", _is_mapping)
_PATH = ("a path", lambda value: _is_path(value) and value != "")
_KINDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    **dict.fromkeys(("anonymise", "dialect", "engine", "format_hint", "outside", "prune", "types"), _TEXT),
    **dict.fromkeys(("mode", "name", "token", "uri"), _TEXT),
    **dict.fromkeys(("query", "text"), ("text", _is_text)),  # the parser reports the position of a half character
    **dict.fromkeys(("allow_checkpoint_only", "allow_duplicate_files", "allow_out_of_range", "from_inclusive"), _FLAG),
    **dict.fromkeys(("all_snapshots", "allow_version_guess", "enforce_retention", "exact"), _FLAG),
    **dict.fromkeys(("lenient_delete_partition", "orphans", "published_only", "refresh"), _FLAG),
    **dict.fromkeys(("schema_only", "untrusted"), _FLAG),
    **dict.fromkeys(("few", "last", "max_files", "max_rows", "max_version", "sample_rows"), _NUMBER),
    **dict.fromkeys(("columns", "exclude", "ignore", "keys", "select", "waived"), _NAMES),
    **dict.fromkeys(("directory", "warehouse"), _PATH),
    **dict.fromkeys(("storage_options", "tables", "tolerance"), _MAPPING),
    "engines": ("an engine's name, or two", lambda value: _is_text(value) or _items_pass(_is_text)(value)),
    "allowed_roots": ("a list of directories", _items_pass(_is_path)),
    "path_map": ("a mapping of paths to paths", _is_path_map),
    "where": ("a condition as SQL text, such as \"region = 'eu'\"", _is_condition),
    "connection": ("a DuckDB connection", _is_connection),
    "ratified": ("a list of staged commits", lambda value: isinstance(value, Iterable)),
    "names": ("a list of names", _items_pass(lambda value: value is None or _is_text(value))),
    "limits": ("harness.Limits(…)", _is_instance_of("harness.storage.limits.Limits")),
    "bounds": ("harness.Bounds(…)", _is_instance_of("harness.untrusted.bounds.Bounds")),
}
"""For each argument name, which means the same in every function: a description of its values, and their test."""


def check_arguments(arguments: Mapping[str, object], optional: Iterable[str] = ()) -> None:
    """Check arguments by their names.

    Args:
        arguments: The values by argument name.
        optional: The names of the arguments that may be None.

    Raises:
        RequestError: A value has the wrong type.
    """
    for name, value in arguments.items():
        if name in _KINDS and not (value is None and name in optional):
            words, test = _KINDS[name]
            if not test(value):
                kind = type(value).__name__
                article = "an" if kind[0].lower() in "aeiou" else "a"
                value_text = f"{value!r:.40}" if isinstance(value, str | int | float | None) else f"{article} {kind}"
                raise RequestError(f"Invalid {name}: got {value_text}, expected {words}", options=(name,))


@functools.cache
def _parameters(function: Callable[..., object]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the names of the arguments, and the names of those that may be None."""
    parameters = inspect.signature(function).parameters
    return tuple(parameters), frozenset(name for name, parameter in parameters.items() if parameter.default is None)


def check_options(function: Callable[..., object], options: Mapping[str, object]) -> None:
    """Check keyword arguments before they are passed to a function.

    Args:
        function: The function.
        options: The keyword arguments.

    Raises:
        RequestError: The function has no such argument, or a value has the wrong type.
    """
    declared, optional = _parameters(function)
    for name in options:
        if name not in declared:
            import difflib  # only needed for a misspelled argument

            similar_names = difflib.get_close_matches(name, declared, 1)
            names = ", ".join(n for n in declared if n != "self")
            hint = f"did you mean {similar_names[0]}?" if similar_names else f"its arguments are {names}"
            raise RequestError(f"Unknown argument {name} of {function.__name__}: {hint}")
    check_arguments(options, optional)


def _unpack_options(function: Callable[..., object]) -> inspect.Signature:
    """Return the signature with the keys of `**options: Unpack[SomeTypedDict]` as separate arguments.

    With it, `help` and completion in notebooks show the same arguments as type checkers and editors. A key that does
    not allow None has no default here. The docstring of its type states the default.
    """
    signature = inspect.signature(function)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        options = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
        if options is None:
            parameters.append(parameter)
            continue
        for name, kind in function.__globals__[options[1]].__annotations__.items():
            text = kind.__forward_arg__
            default = None if text.endswith("| None") else ...
            parameters.append(inspect.Parameter(name, parameter.KEYWORD_ONLY, default=default, annotation=text))
    return signature.replace(parameters=parameters)


def validate_call(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a check of its arguments before each call."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        declared, _ = _parameters(call)
        check_options(call, {**dict(zip(declared, args, strict=False)), **kwargs})
        return function(*args, **kwargs)

    vars(call)["__signature__"] = _unpack_options(function)
    return call
