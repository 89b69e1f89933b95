"""Other projects' readers, each a script in an interpreter of its own, and the making of those interpreters.

`python -m harness.suite.readers DIR [NAME ...]` makes a virtual environment DIR/NAME for each reader that
has none yet, or for the named ones, installs what the reader needs (pip asks the package index that it is set up for),
and prints `NAME=PATH` lines for `harness scenarios run --python`. The variable HARNESS_READERS=DIR makes them known to
every command. A reader that cannot be installed is told on standard error and left out.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import RequestError
from harness.suite.workers import NOT_INSTALLED

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
_ALL = (
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
READERS: Mapping[str, OtherReader] = {reader.name: reader for reader in _ALL}


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
    given = pythons.get(reader.name) or os.environ.get(variable)
    if given:
        return given
    folder = os.environ.get("HARNESS_READERS")
    if folder and (made := _python(Path(folder) / reader.name)).is_file():
        return str(made)
    lacking = [name for name in reader.modules if importlib.util.find_spec(name) is None]
    if lacking:
        raise RequestError(
            f"Cannot use the engine {reader.name}: {', '.join(lacking)} is not installed; name an interpreter that has "
            f"it by {variable}, or make one: python -m {__name__} DIR {reader.name}, and set HARNESS_READERS=DIR",
            cause=NOT_INSTALLED,
        )
    return sys.executable


def _python(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def interpreters(directory: Path, readers: Mapping[str, OtherReader]) -> dict[str, Path]:
    """The interpreters by name of the reader, without those that cannot be installed."""
    found = {}
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
        found[reader.name] = python
    return found


if __name__ == "__main__":
    _directory, *_names = sys.argv[1:]
    _made = interpreters(Path(_directory), {name: READERS[name] for name in _names or READERS})
    print(*(f"{name}={path}" for name, path in _made.items()), sep="\n")
