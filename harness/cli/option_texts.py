"""Texts of options: column names between commas, and `--storage-option KEY=VALUE`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NoReturn

import typer


def names(text: str | None, option: str) -> list[str] | None:
    """Column names separated by commas, None if the option was not given.

    A name in double quotes may hold commas, and `""` for a double quote.

    Raises:
        typer.BadParameter: an empty name, or a quote that is not closed.
    """
    if text is None:
        return None
    found: list[str] = []
    rest = text
    while True:
        name, rest, more = _quoted(rest.lstrip(), option) if rest.lstrip().startswith('"') else _bare(rest)
        if not name:
            raise typer.BadParameter(f"{option} {text!r} holds an empty name")
        found.append(name)
        if not more:
            return found


def _bare(text: str) -> tuple[str, str, bool]:
    name, separator, rest = text.partition(",")
    return name.strip(), rest, separator == ","


def _quoted(text: str, option: str) -> tuple[str, str, bool]:
    name, position = "", 1
    while (end := text.find('"', position)) >= 0:
        name += text[position:end]
        if text[end + 1 : end + 2] != '"':
            junk, separator, rest = text[end + 1 :].partition(",")
            if junk.strip():
                raise typer.BadParameter(f"{option}: {junk.strip()!r} follows a quoted name")
            return name, rest, separator == ","
        name, position = name + '"', end + 2
    raise typer.BadParameter(f"{option}: the quote in {text!r} is not closed")


_OPTION = "--storage-option"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
"""A number without an exponent: `12e34` is more likely a part of a key."""


def storage_options(values: Sequence[str] | None) -> dict[str, Any]:
    """The arguments of a file system, typed and nested, by key.

        true, false, null         as in JSON; `anon=false` as text would count as true
        12, 1.5                   a number
        {"a": 1}, ["a"]           JSON
        "12"                      in double quotes, a JSON string: text, whatever is in it
        anything else             text, as it is

    A dot in the key goes one level down: `client_kwargs.endpoint_url=URL` is `client_kwargs={"endpoint_url": "URL"}`.
    A key that is a URI is one name: `s3://my.bucket={"key": "…"}`.

    Raises:
        typer.BadParameter: not of the form KEY=VALUE, wrong JSON, or a key that is given twice or has keys below its
            value. The message shows no value, which may be a secret.
    """
    options: dict[str, Any] = {}
    for number, text in enumerate(values or (), 1):
        key, separator, value = text.partition("=")
        names = [key] if "://" in key else key.split(".")
        if not separator or not all(names):
            raise typer.BadParameter(f"{_OPTION} number {number} is not of the form NAME=VALUE")
        _put(options, names, typed(value, f"{_OPTION} {key!r}"), key)
    return options


def typed(text: str, said: str) -> Any:
    """The value of a text, as `storage_options` tells; `said`: the option that has it. Raises typer.BadParameter."""
    is_json = text in ("true", "false", "null") or _NUMBER.fullmatch(text) or text[:1] in ("{", "[", '"')
    if not is_json:
        return text
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise typer.BadParameter(
            f"{said}: a value that begins with {text[0]} must be JSON; put text that does in double quotes"
        ) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _put(options: dict[str, Any], names: Sequence[str], value: Any, key: str) -> None:
    """Sets the value, beside others under the same keys."""
    *above, last = names
    level = options
    for name in above:
        level = level.setdefault(name, {})
        if not isinstance(level, dict):
            raise typer.BadParameter(f"{_OPTION} {key!r}: {name!r} already has a value, so nothing can be below it")
    if isinstance(value, dict) and isinstance(level.get(last), dict):
        for name, inner in value.items():
            _put(level[last], [name], inner, f"{key}.{name}")
    elif last in level:
        raise typer.BadParameter(f"{_OPTION} {key!r} is given twice")
    else:
        level[last] = value
