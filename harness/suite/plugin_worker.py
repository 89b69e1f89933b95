"""A worker's script for engines that are Python objects: `worker.py plugin_worker.py module:attribute`."""

from __future__ import annotations

import difflib
import importlib
import sys
from functools import partial
from types import SimpleNamespace

from harness.suite.own import ArrowStream, At, ChangeReader, Counting, ReaderUnderTest, TableAt


def load(target: str) -> ReaderUnderTest:
    """The engine that `module:attribute` names; a class is called, without arguments.

    Raises:
        ImportError: there is no such module or attribute; names that are near.
    """
    module_name, _, path = target.partition(":")
    found: object = importlib.import_module(module_name)
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            near = difflib.get_close_matches(name, dir(found), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ImportError(f"{module_name} has no {path}{hint}") from None
    engine: ReaderUnderTest = found() if isinstance(found, type) else found  # type: ignore[assignment]  # a plug-in's
    return engine


_ENGINE = load(sys.argv[1])
NAME = _ENGINE.name


def version() -> str:
    """The engine's version."""
    return _ENGINE.version()


def capabilities() -> frozenset[str] | None:
    """The features that the engine claims."""
    return _ENGINE.capabilities()


def _wanted(table: SimpleNamespace) -> TableAt:
    at = None if table.at is None else At(table.at.kind, table.at.value)
    return TableAt(format=table.format, location=table.location, metadata_path=table.metadata_path, at=at)


OPTIONS: tuple[str, ...] = getattr(_ENGINE, "options", ())


def read(
    table: SimpleNamespace, *, columns: tuple[str, ...] | None, where: str | None, **options: object
) -> ArrowStream:
    """The rows that the engine reads."""
    return _ENGINE.read(_wanted(table), columns=columns, where=where, **options)


def _count(engine: Counting, table: SimpleNamespace, *, where: str | None) -> int:
    return engine.count(_wanted(table), where=where)


def _changes(
    engine: ChangeReader, table: SimpleNamespace, first: int, last: int, *, columns: tuple[str, ...] | None
) -> ArrowStream:
    return engine.changes(_wanted(table), first, last, columns=columns)


if isinstance(_ENGINE, Counting):
    count = partial(_count, _ENGINE)
if isinstance(_ENGINE, ChangeReader):
    changes = partial(_changes, _ENGINE)
