"""Engines by name: harness's own, readers of other projects, entry points, `module:attribute`, `NAME=exec:COMMAND`.

A reader of another project runs with its default settings. `NAME:SETTING=VALUE` is the reader with another setting; the
reader goes by this whole name, so that every report says it.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import os
import re
import shlex
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from harness.engines.registry import engine_names, start_engines
from harness.errors import RequestError
from harness.suite.own import OwnReader, ReaderUnderTest
from harness.suite.readers import PROGRAMS, READERS, SCRIPT, interpreter_of, program_of
from harness.suite.workers import NOT_INSTALLED, Worker

GROUP = "harness.readers"
"""Of the entry points by which packages register readers for the suite; engines that run plans have their own."""
TIME_LIMIT_S = 60.0
SERVER = Path(__file__).with_name("worker.py")
"""The script that serves a reader in Python, in the reader's interpreter."""
_PLUGIN = Path(__file__).with_name("plugin_worker.py")
_NEXT_SETTING = re.compile(r":(?=[\w.]+=)")
_PROGRAM = re.compile(r"(?:(?P<name>[^=:]+)=)?exec:(?P<command>.*\S.*)", re.DOTALL)
"""A reader that is a program: the name that reports give it, and its command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlaces:
    """Places and time limits of engines.

    pythons: by name of an engine, the interpreter that has it.
    time_limit_s: seconds that one read may take, in a worker.
    tables: the directory that harness's own engines may read files in, and nowhere else; None: see `OwnReader`.
    """

    pythons: Mapping[str, str] = field(default_factory=dict)
    time_limit_s: float = TIME_LIMIT_S
    tables: str | None = None


def known_engines() -> tuple[str, ...]:
    """The names of all engines that can be asked for by name."""
    return tuple(dict.fromkeys([*engine_names(), *READERS, *PROGRAMS, *sorted(_entry_points())]))


def split_settings(name: str) -> tuple[str, tuple[str, ...]]:
    """The name of an engine and its settings: `duckdb-iceberg:threads=1:memory_limit=1GB` has two.

    Raises:
        RequestError: a setting of an engine that is known by name has no value.
    """
    base, mark, rest = name.partition(":")
    if not mark or base not in known_engines():
        return name, ()
    settings = tuple(_NEXT_SETTING.split(rest))
    if wrong := [each for each in settings if not re.match(r"[\w.]+=", each)]:
        raise RequestError(f"Invalid setting {wrong[0]!r} of the engine {base}: expected {base}:SETTING=VALUE")
    return base, settings


def check_names(names: Mapping[str, object]) -> None:
    """Refuses names that no engine has. Raises RequestError if there is none; the message names the nearest."""
    for name in names:
        if name not in known_engines() and ":" not in name:  # a module's attribute, or a program
            raise _unknown(name)


def open_engine(name: str, places: EnginePlaces, resources: ExitStack) -> ReaderUnderTest | OwnReader:
    """An engine, ready to read until `resources` are closed.

    Raises:
        RequestError: there is no such engine, the message names the nearest; its engine has no such setting or none at
            all; or, of cause `NOT_INSTALLED`, it, or what it needs, is not installed.
        EngineError: its worker crashes at once, or does not get ready in time.
    """
    asked, (name, settings) = name, split_settings(name)
    if settings and name not in READERS:
        raise RequestError(f"Cannot use the engine {asked}: {name} takes no settings")
    if name in engine_names():
        try:
            start_engines([name])
        except RequestError as error:
            raise RequestError(error.message, cause=NOT_INSTALLED) from error
        return OwnReader(name, places.tables)
    environment = {}
    apart = False
    program = _PROGRAM.fullmatch(name)
    if program is not None:
        command = shlex.split(program["command"])
        name = program["name"] or Path(command[0]).stem
    elif name in READERS:
        command = [interpreter_of(READERS[name], places.pythons), str(SERVER), str(SCRIPT), name, *settings]
        apart = READERS[name].keeps_files
    elif name in PROGRAMS:
        command = [program_of(name)]
    else:
        target = name if ":" in name else _entry_points().get(name)
        if target is None:
            raise _unknown(name)
        command = [places.pythons.get(name, sys.executable), str(SERVER), str(_PLUGIN), target]
        # The worker finds what this process finds, and what lies in the working directory.
        environment["PYTHONPATH"] = os.pathsep.join([each or os.getcwd() for each in sys.path] + [os.getcwd()])
    shown, limit = asked if settings else name, places.time_limit_s
    try:
        worker = Worker(shown, command, time_limit_s=limit, environment=environment, apart=apart)
    except RequestError as error:
        if settings:  # which are wrong, so that the engine may be there
            raise RequestError(error.message) from error
        raise
    resources.callback(worker.close)
    return worker


def _entry_points() -> dict[str, str]:
    return {point.name: point.value for point in importlib.metadata.entry_points(group=GROUP)}


def _unknown(name: str) -> RequestError:
    known = known_engines()
    near = difflib.get_close_matches(name, known, n=1)
    forms = "MODULE:ATTRIBUTE, or NAME=exec:COMMAND"
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}, {forms}"
    return RequestError(f"Unknown engine {name!r}: {hint}")
