"""Readers by name: engines of harness, other projects' readers, entry points, `module:attribute`, `NAME=exec:COMMAND`.

A reader of another project runs with its default settings in a separate interpreter. `NAME:SETTING=VALUE` is the
reader with another setting; reports show this whole name.

`python -m harness.suite.readers DIR [NAME ...]` makes a virtual environment DIR/NAME for each named reader, or for each
reader that does not have one yet. It installs the reader's packages from the package index that pip is configured for,
and prints `NAME=PATH` lines for `harness scenarios run --python`. The environment variable HARNESS_READERS=DIR makes
all commands use these environments. A reader that cannot be installed is reported on standard error and left out.
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
"""The version of pyspark, the packages, and the settings of the reference implementations, by format."""
SCRIPT = Path(__file__).with_name("other_readers.py")
_CARRIER = "pyarrow"
"""The package that `harness.suite.worker` needs in addition to the reader."""


@dataclass(frozen=True, slots=True)
class OtherReader:
    """A reader that `other_readers.py` provides under this name.

    Attributes:
        modules: The modules that it needs. If this interpreter has all of them, it serves the reader.
        install: The arguments of `pip install`.
        keeps_files: Whether the reader caches files by path between reads, so that each table needs its own process.
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
"""Readers that are programs of harness over libraries in other languages. `nox -s readers -- native` builds them."""


def program_of(name: str) -> str:
    """Return the path of a program of `PROGRAMS` in HARNESS_READERS.

    Raises:
        RequestError: The program is not built. The cause is `NOT_INSTALLED`.
    """
    folder = os.environ.get("HARNESS_READERS")
    if folder and (built := Path(folder).resolve() / name / "reader").is_file():
        return str(built)
    raise RequestError(
        f"Cannot use the engine {name}: it is not built; run "
        "nox -s readers -- native in a checkout of harness and set HARNESS_READERS=.nox/readers",
        cause=NOT_INSTALLED,
    )


def interpreter_of(reader: OtherReader, pythons: Mapping[str, str]) -> str:
    """Return the Python interpreter that runs a reader.

    These interpreters are tried in order: the given one, HARNESS_PYTHON_<NAME>, the reader's environment in
    HARNESS_READERS, and this interpreter if it has the reader's modules.

    Raises:
        RequestError: No such interpreter exists. The cause is `NOT_INSTALLED`.
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
            f"Cannot use the engine {reader.name}: {', '.join(missing)} is not installed; set {variable} to an "
            f"interpreter that has it, or run python -m {__name__} DIR {reader.name} and set HARNESS_READERS=DIR",
            cause=NOT_INSTALLED,
        )
    return sys.executable


def _python(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def interpreters(directory: Path, readers: Mapping[str, OtherReader]) -> dict[str, Path]:
    """Make an environment for each reader. Return the interpreters of the installed readers by name.

    Readers that cannot be installed are omitted.
    """
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


GROUP = "harness.readers"
"""The entry point group for packages that register readers for the suite.

Engines that execute plans have another group.
"""
TIME_LIMIT_S = 60.0
SERVER = Path(__file__).with_name("worker.py")
"""The script that serves a Python reader in the reader's interpreter."""
_NEXT_SETTING = re.compile(r":(?=[\w.]+=)")
_PROGRAM = re.compile(r"(?:(?P<name>[^=:]+)=)?exec:(?P<command>.*\S.*)", re.DOTALL)
"""A reader that is a program: its name in reports, and its command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOptions:
    """Interpreters, time limits, and directories of engines.

    Attributes:
        pythons: Interpreters by the name of the engine.
        time_limit_s: The time limit of a read in a worker, in seconds.
        tables: Harness's own engines may only read files in this directory. None has the same meaning as in
            `HarnessReader.within`.
    """

    pythons: Mapping[str, str] = field(default_factory=dict)
    time_limit_s: float = TIME_LIMIT_S
    tables: str | None = None


def reader_names() -> tuple[str, ...]:
    """Return the names of all engines that are available by name."""
    return tuple(dict.fromkeys([*engine_names(), *READERS, *PROGRAMS, *sorted(_entry_points())]))


def split_settings(name: str) -> tuple[str, tuple[str, ...]]:
    """Split an engine's name from its settings: `duckdb-iceberg:threads=1:memory_limit=1GB` has two settings.

    Raises:
        RequestError: A setting has no value.
    """
    base, mark, rest = name.partition(":")
    if not mark or base not in reader_names():
        return name, ()
    settings = tuple(_NEXT_SETTING.split(rest))
    if wrong := [each for each in settings if not re.match(r"[\w.]+=", each)]:
        raise RequestError(f"Invalid setting {wrong[0]!r} of the engine {base}: expected {base}:SETTING=VALUE")
    return base, settings


def check_names(names: Mapping[str, object]) -> None:
    """Raise RequestError for the first name that no engine has. The message suggests the nearest name."""
    for name in names:
        if name not in reader_names() and ":" not in name:  # an attribute of a module, or a program
            raise _unknown_engine(name)


def open_engine(name: str, places: ReaderOptions, resources: ExitStack) -> Reader | HarnessReader:
    """Return an engine that is ready to read until `resources` are closed.

    Raises:
        RequestError: The engine is unknown, or does not accept the settings. If the engine or one of its requirements
            is not installed, the cause is `NOT_INSTALLED`.
        EngineError: The worker crashes at the start, or is not ready within the time limit.
    """
    argument, (name, settings) = name, split_settings(name)
    if settings and name not in READERS:
        raise RequestError(f"Cannot use the engine {argument}: {name} accepts no settings")
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
        # The worker can import everything that this process can import, and modules in the working directory.
        environment["PYTHONPATH"] = os.pathsep.join([each or os.getcwd() for each in sys.path] + [os.getcwd()])
    label, limit = argument if settings else name, places.time_limit_s
    try:
        worker = Worker(
            label, command, time_limit_s=limit, environment=environment, process_per_table=process_per_table
        )
    except RequestError as error:
        if settings:  # the settings are wrong, so the engine may be installed
            raise RequestError(error.message) from error
        raise
    resources.callback(worker.close)
    return worker


def _entry_points() -> dict[str, str]:
    return {point.name: point.value for point in importlib.metadata.entry_points(group=GROUP)}


def _unknown_engine(name: str) -> RequestError:
    names = reader_names()
    near = difflib.get_close_matches(name, names, n=1)
    forms = "MODULE:ATTRIBUTE, or NAME=exec:COMMAND"
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}, {forms}"
    return RequestError(f"Unknown engine {name!r}: {hint}")


if __name__ == "__main__":
    _directory, *_names = sys.argv[1:]
    _found_pythons = interpreters(Path(_directory), {name: READERS[name] for name in _names or READERS})
    print(*(f"{name}={path}" for name, path in _found_pythons.items()), sep="\n")
