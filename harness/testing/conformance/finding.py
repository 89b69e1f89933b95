"""Engines by name: harness's own, readers of other projects, entry points, `module:attribute`, `NAME=exec:COMMAND`."""

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
from harness.testing.conformance.own import OwnReader, ReaderUnderTest
from harness.testing.conformance.readers import PROGRAMS, READERS, SCRIPT, interpreter_of, program_of
from harness.testing.conformance.workers import NOT_INSTALLED, Worker

GROUP = "harness.readers"
"""Of the entry points by which packages register readers for the suite; engines that run plans have their own."""
TIME_LIMIT_S = 60.0
SERVER = Path(__file__).with_name("worker.py")
"""The script that serves a reader in Python, in the reader's interpreter."""
_PLUGIN = Path(__file__).with_name("plugin_worker.py")
_PROGRAM = re.compile(r"(?:(?P<name>[^=:]+)=)?exec:(?P<command>.*\S.*)", re.DOTALL)
"""A reader that is a program: the name that reports give it, and its command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
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


def check_names(names: Mapping[str, object]) -> None:
    """Refuses names that no engine has. Raises RequestError if there is none; the message names the nearest."""
    for name in names:
        if name not in known_engines() and ":" not in name:  # a module's attribute, or a program
            raise _unknown(name)


def open_engine(name: str, places: Places, resources: ExitStack) -> ReaderUnderTest | OwnReader:
    """An engine, ready to read until `resources` are closed.

    Raises:
        RequestError: there is no such engine, the message names the nearest; or, of cause `NOT_INSTALLED`, it, or what
            it needs, is not installed.
        EngineError: its worker crashes at once, or does not get ready in time.
    """
    if name in engine_names():
        try:
            start_engines([name])
        except RequestError as error:
            raise RequestError(error.message, cause=NOT_INSTALLED) from error
        return OwnReader(name, places.tables)
    environment = {}
    program = _PROGRAM.fullmatch(name)
    if program is not None:
        command = shlex.split(program["command"])
        name = program["name"] or Path(command[0]).stem
    elif name in READERS:
        command = [interpreter_of(READERS[name], places.pythons), str(SERVER), str(SCRIPT), name]
    elif name in PROGRAMS:
        command = [program_of(name)]
    else:
        target = name if ":" in name else _entry_points().get(name)
        if target is None:
            raise _unknown(name)
        command = [places.pythons.get(name, sys.executable), str(SERVER), str(_PLUGIN), target]
        # The worker finds what this process finds, and what lies in the working directory.
        environment["PYTHONPATH"] = os.pathsep.join([each or os.getcwd() for each in sys.path] + [os.getcwd()])
    worker = Worker(name, command, time_limit_s=places.time_limit_s, environment=environment)
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
