"""Files with queries, and the options that stand in a comment of each."""

from __future__ import annotations

import glob
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from harness.cli.name_lists import names
from harness.cli.relaxing import Relaxing
from harness.differ.query_file import QueryFile
from harness.differ.relaxations import Relaxations

_MARK = "-- harness:"
_FLAGS = {"--ignore-case": "ignore_case", "--trim": "trim"}
_LISTS = {"--tolerance": "tolerance", "--rename": "rename"}
_VALUES = {"--exclude": "exclude", "--null-as": "null_as"}


def read_queries(patterns: Sequence[str], keys: Sequence[str], relaxing: Relaxing) -> list[QueryFile]:
    """The queries of files, in the order of their names within a pattern.

    A line `-- harness: --keys id --tolerance 'total=0.01 because …' --exclude loaded` says how that query's results are
    compared, beside what holds for all.

    Args:
        keys, relaxing: what holds for queries that say nothing else.

    Raises:
        typer.BadParameter: there is no such file, or an option in a comment is not understood.
    """
    paths = [Path(path) for pattern in patterns for path in (sorted(glob.glob(pattern)) or [pattern])]
    return [_read(path, keys, relaxing) for path in dict.fromkeys(paths)]


def _read(path: Path, keys: Sequence[str], relaxing: Relaxing) -> QueryFile:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"--sql-file {str(path)!r} cannot be read: {error}") from None
    own = [line.strip()[len(_MARK) :] for line in text.splitlines() if line.strip().startswith(_MARK)]
    try:
        given, own_keys = _options(shlex.split(" ".join(own)))
        found = Relaxing(**given).relaxations(is_foreign=False)
    except (ValueError, typer.BadParameter) as error:
        raise typer.BadParameter(f"{path}: in its comment {_MARK} {error}") from None
    general = relaxing.relaxations(is_foreign=False)
    return QueryFile(
        name=path.name,
        text=text.rstrip().removesuffix(";"),
        keys=tuple(keys if own_keys is None else own_keys),
        relaxations=Relaxations(
            tolerances={**general.tolerances, **found.tolerances},
            exclude=(*general.exclude, *found.exclude),
            rename={**general.rename, **found.rename},
            ignore_case=general.ignore_case or found.ignore_case,
            trim=general.trim or found.trim,
            null_as=found.null_as if found.null_as is not None else general.null_as,
        ),
    )


def _options(words: list[str]) -> tuple[dict[str, Any], list[str] | None]:
    """Arguments of `Relaxing`, and keys.

    Raises:
        ValueError: an option that is none of these, or that lacks its value.
    """
    found: dict[str, Any] = {}
    keys = None
    rest = iter(words)
    for word in rest:
        if word in _FLAGS:
            found[_FLAGS[word]] = True
            continue
        if word not in ("--keys", *_LISTS, *_VALUES):
            raise ValueError(f"is {word!r}, which is none of --keys, {', '.join([*_LISTS, *_VALUES, *_FLAGS])}")
        value = next(rest, None)
        if value is None:
            raise ValueError(f"{word} lacks its value")
        if word == "--keys":
            keys = names(value, word)
        elif word in _LISTS:
            found.setdefault(_LISTS[word], []).append(value)
        else:
            found[_VALUES[word]] = value
    return found, keys
