"""Readers by name: harness's engines, other projects' readers, entry points, `module:attribute`, `NAME=exec:COMMAND`.

A reader of another project runs with its default settings, in an interpreter of its own. `NAME:SETTING=VALUE` is the
reader with another setting, and reports call it by this whole name.

`python -m harness.suite.readers DIR [NAME ...]` makes a virtual environment DIR/NAME for each named reader, or for
each reader that has none yet, installs what the reader needs (pip asks the package index that it is set up for), and
prints `NAME=PATH` lines for `harness scenarios run --python`. The variable HARNESS_READERS=DIR makes the environments
known to every command. A reader that cannot be installed is reported on standard error and left out.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import venv
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from harness.engines.registry import engine_names, start_engines
from harness.errors import RequestError
from harness.suite.reader import HarnessReader, Reader
from harness.suite.workers import NOT_INSTALLED, Worker

PINNED = json.loads(Path(__file__).with_name("jars.json").read_text(encoding="utf-8"))
"""The pyspark, packages and settings of the reference implementations, by format."""
SCRIPT = Path(__file__).with_name("other_readers.py")
_CARRIER = "pyarrow"
"""The package that `harness.suite.worker` needs beside every reader."""


@dataclass(frozen=True, slots=True)
class OtherReader:
    """A reader that `other_readers.py` has by this name.

    modules: what must be importable for it; where all are in this interpreter, this one serves.
    install: what to install for it, as words after `pip install`.
    keeps_files: whether it keeps files by their path between reads, so that each table gets a process of its own.
    """

    name: str
    modules: tuple[str, ...]
    install: str
    keeps_files: bool = False


_DUCKDB = "duckdb==1.5.5"
_SPARK = "pyspark=={} pyarrow 'pandas<3'"
_OTHER_READERS = (
    OtherReader("pyiceberg", ("pyiceberg",), "'pyiceberg[pyarrow]==0.12.0'"),
    OtherReader(
        "pyiceberg-core",
        ("pyiceberg_core", "datafusion", "pyiceberg"),
        "pyiceberg-core==0.11.0 datafusion==54.1.0 'pyiceberg[pyarrow]==0.12.0'",
    ),
    OtherReader("deltalake", ("deltalake",), "deltalake==1.6.6"),
    OtherReader(
        "polars", ("polars", "pyiceberg", "deltalake"), "polars==2.1.0 'pyiceberg[pyarrow]==0.12.0' deltalake==1.6.6"
    ),
    OtherReader(
        "polars-iceberg",
        ("polars", "polars_iceberg", "pyiceberg"),
        "polars==2.1.0 polars-iceberg==0.1.0 'pyiceberg[pyarrow]==0.12.0'",
    ),
    OtherReader(
        "daft", ("daft", "pyiceberg", "deltalake"), "daft==0.7.26 'pyiceberg[pyarrow]==0.12.0' deltalake==1.6.6"
    ),
    OtherReader(
        "duckdb-iceberg",
        ("duckdb_extension_iceberg", "duckdb_extension_avro"),
        f"{_DUCKDB} duckdb-extension-iceberg duckdb-extension-avro",
        keeps_files=True,
    ),
    OtherReader("duckdb-delta", ("duckdb_extension_delta",), f"{_DUCKDB} duckdb-extension-delta", keeps_files=True),
    OtherReader("chdb", ("chdb",), "chdb==4.4.0", keeps_files=True),
    OtherReader("sail", ("pysail",), "pysail==0.7.2 'pyspark[connect]==4.1.4' 'pandas<3'"),
    OtherReader("spark-iceberg", ("pyspark",), _SPARK.format(PINNED["iceberg"]["pyspark"])),
    OtherReader("spark-delta", ("pyspark",), _SPARK.format(PINNED["delta"]["pyspark"])),
)
READERS: Mapping[str, OtherReader] = {reader.name: reader for reader in _OTHER_READERS}


PROGRAMS = ("iceberg-java", "delta-kernel-java", "delta-kernel-rust", "iceberg-go", "iceberg-rust")
"""Readers that are programs of ours over a library in another language, which `nox -s readers -- native` builds."""


def program_of(name: str) -> str:
    """The program of `PROGRAMS` that HARNESS_READERS has.

    Raises:
        RequestError: it is not built; of cause `NOT_INSTALLED`.
    """
    folder = os.environ.get("HARNESS_READERS")
    if folder and (built := Path(folder).resolve() / name / "reader").is_file():
        return str(built)
    raise RequestError(
        f"Cannot use the engine {name}: it is not built; build it in a checkout of harness: "
        "nox -s readers -- native, and set HARNESS_READERS=.nox/readers",
        cause=NOT_INSTALLED,
    )


def interpreter_of(reader: OtherReader, pythons: Mapping[str, str]) -> str:
    """The Python that runs a reader: the one given, HARNESS_PYTHON_<NAME>, one in HARNESS_READERS, or this one.

    Raises:
        RequestError: there is none; of cause `NOT_INSTALLED`.
    """
    variable = "HARNESS_PYTHON_" + reader.name.upper().replace("-", "_")
    python = pythons.get(reader.name) or os.environ.get(variable)
    if python:
        return python
    folder = os.environ.get("HARNESS_READERS")
    if folder and (installed := _python(Path(folder) / reader.name)).is_file():
        return str(installed)
    missing = [name for name in reader.modules if importlib.util.find_spec(name) is None]
    if missing:
        raise RequestError(
            f"Cannot use the engine {reader.name}: {', '.join(missing)} is not installed; name an interpreter that has "
            f"it by {variable}, or make one: python -m {__name__} DIR {reader.name}, and set HARNESS_READERS=DIR",
            cause=NOT_INSTALLED,
        )
    return sys.executable


def _python(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def interpreters(directory: Path, readers: Mapping[str, OtherReader]) -> dict[str, Path]:
    """The interpreters by name of the reader, without those that cannot be installed."""
    installed = {}
    for reader in readers.values():
        place = directory.resolve() / reader.name
        python = _python(place)
        done = place / "installed.txt"
        if not (done.is_file() and done.read_text("utf-8") == reader.install):
            venv.create(place, with_pip=True, clear=True)
            pip = [str(python), "-m", "pip", "install", "--quiet", _CARRIER, *shlex.split(reader.install)]
            if subprocess.run(pip, stdout=sys.stderr, check=False).returncode != 0:
                print(f"{reader.name} cannot be installed: pip install {reader.install}", file=sys.stderr)
                continue
            done.write_text(reader.install, "utf-8")
        installed[reader.name] = python
    return installed


# A reader that is opened by its name.


GROUP = "harness.readers"
"""Of the entry points by which packages register readers for the suite; engines that run plans have their own."""
TIME_LIMIT_S = 60.0
SERVER = Path(__file__).with_name("worker.py")
"""The script that serves a reader in Python, in the reader's interpreter."""
_NEXT_SETTING = re.compile(r":(?=[\w.]+=)")
_PROGRAM = re.compile(r"(?:(?P<name>[^=:]+)=)?exec:(?P<command>.*\S.*)", re.DOTALL)
"""A reader that is a program: the name that reports give it, and its command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOptions:
    """Places and time limits of engines.

    pythons: by name of an engine, the interpreter that has it.
    time_limit_s: seconds that one read may take, in a worker.
    tables: the directory that harness's own engines may read files in, and nowhere else; None: see `HarnessReader`.
    """

    pythons: Mapping[str, str] = field(default_factory=dict)
    time_limit_s: float = TIME_LIMIT_S
    tables: str | None = None


def reader_names() -> tuple[str, ...]:
    """The names of all engines that can be asked for by name."""
    return tuple(dict.fromkeys([*engine_names(), *READERS, *PROGRAMS, *sorted(_entry_points())]))


def split_settings(name: str) -> tuple[str, tuple[str, ...]]:
    """The name of an engine and its settings: `duckdb-iceberg:threads=1:memory_limit=1GB` has two.

    Raises:
        RequestError: a setting of an engine that is known by name has no value.
    """
    base, mark, rest = name.partition(":")
    if not mark or base not in reader_names():
        return name, ()
    settings = tuple(_NEXT_SETTING.split(rest))
    if wrong := [each for each in settings if not re.match(r"[\w.]+=", each)]:
        raise RequestError(f"Invalid setting {wrong[0]!r} of the engine {base}: expected {base}:SETTING=VALUE")
    return base, settings


def check_names(names: Mapping[str, object]) -> None:
    """Refuses names that no engine has. Raises RequestError if there is none; the message names the nearest."""
    for name in names:
        if name not in reader_names() and ":" not in name:  # a module's attribute, or a program
            raise _unknown_engine(name)


def open_engine(name: str, places: ReaderOptions, resources: ExitStack) -> Reader | HarnessReader:
    """An engine, ready to read until `resources` are closed.

    Raises:
        RequestError: there is no such engine, the message names the nearest; its engine has no such setting or none at
            all; or, of cause `NOT_INSTALLED`, it, or what it needs, is not installed.
        EngineError: its worker crashes at once, or does not get ready in time.
    """
    argument, (name, settings) = name, split_settings(name)
    if settings and name not in READERS:
        raise RequestError(f"Cannot use the engine {argument}: {name} takes no settings")
    if name in engine_names():
        try:
            start_engines([name])
        except RequestError as error:
            raise RequestError(error.message, cause=NOT_INSTALLED) from error
        return HarnessReader(name, places.tables)
    environment = {}
    process_per_table = False
    program = _PROGRAM.fullmatch(name)
    if program is not None:
        command = shlex.split(program["command"])
        name = program["name"] or Path(command[0]).stem
    elif name in READERS:
        command = [interpreter_of(READERS[name], places.pythons), str(SERVER), str(SCRIPT), name, *settings]
        process_per_table = READERS[name].keeps_files
    elif name in PROGRAMS:
        command = [program_of(name)]
    else:
        target = name if ":" in name else _entry_points().get(name)
        if target is None:
            raise _unknown_engine(name)
        command = [places.pythons.get(name, sys.executable), str(SERVER), target]
        # The worker finds what this process finds, and what lies in the working directory.
        environment["PYTHONPATH"] = os.pathsep.join([each or os.getcwd() for each in sys.path] + [os.getcwd()])
    label, limit = argument if settings else name, places.time_limit_s
    try:
        worker = Worker(
            label, command, time_limit_s=limit, environment=environment, process_per_table=process_per_table
        )
    except RequestError as error:
        if settings:  # which are wrong, so that the engine may be there
            raise RequestError(error.message) from error
        raise
    resources.callback(worker.close)
    return worker


def _entry_points() -> dict[str, str]:
    return {point.name: point.value for point in importlib.metadata.entry_points(group=GROUP)}


def _unknown_engine(name: str) -> RequestError:
    known = reader_names()
    near = difflib.get_close_matches(name, known, n=1)
    forms = "MODULE:ATTRIBUTE, or NAME=exec:COMMAND"
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}, {forms}"
    return RequestError(f"Unknown engine {name!r}: {hint}")


if __name__ == "__main__":
    _directory, *_names = sys.argv[1:]
    _found_pythons = interpreters(Path(_directory), {name: READERS[name] for name in _names or READERS})
    print(*(f"{name}={path}" for name, path in _found_pythons.items()), sep="\n")
