"""An interpreter for each reader of another project: `python -m harness.testing.conformance.environments DIR`.

Makes a virtual environment DIR/NAME for each reader that has none yet, installs what the reader needs (pip asks the
package index that it is set up for), and prints `NAME=PATH` lines for `harness run --python`. A reader that cannot be
installed is told on standard error and left out.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

from harness.testing.conformance.readers import READERS
from harness.testing.conformance.workers import WorkerScript

_CARRIER = "pyarrow"
"""Which `harness.testing.conformance.worker` needs beside every reader."""


def main(directory: Path) -> None:
    """Make what is missing, and print what is there."""
    for name, python in interpreters(directory, READERS).items():
        print(f"{name}={python}")


def interpreters(directory: Path, readers: Mapping[str, WorkerScript]) -> dict[str, Path]:
    """The interpreters by name of the reader, without those that cannot be installed."""
    found = {}
    for reader in readers.values():
        place = directory.resolve() / reader.name
        python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
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
    main(Path(sys.argv[1]))
