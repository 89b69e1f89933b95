"""List the files of the package whose functions a read calls: `python programs/files_entered.py [--list]`.

The demo tables are read on DuckDB, with and without a filter, each in a separate process, from `open_table` to the
rows. A file counts if one of its functions is called; imports alone do not count. Packages are folders down to two
levels.

    --list    print the files in the order of their first call
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import harness

PACKAGE = Path(harness.__file__).parent
READS = (
    ("Iceberg, all rows", "orders", ""),
    ("Iceberg, a filter, vectors", "events", "id < 1500"),
    ("Delta, all rows", "clicks", ""),
    ("Delta, a filter, vectors", "clicks", "market = 'de'"),
)
"""Title, demo table, and filter of each read."""
_IS_FUNCTION = 1
"""A flag of function code, which modules and classes lack."""


def entered_files(location: str, where: str) -> dict[str, Any]:
    """Read a table in this process. Return the files in call order, and how often the read changed files."""
    root, order, last, changes = f"{PACKAGE}{os.sep}", {}, None, 0

    def record_frame(frame: FrameType, event: str, _: object) -> None:
        nonlocal last, changes
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root) and code.co_flags & _IS_FUNCTION:
            file = code.co_filename[len(root) :]
            order[file] = True
            changes += file != last
            last = file

    threading.setprofile(record_frame)
    sys.setprofile(record_frame)
    query = f"SELECT * FROM t{f' WHERE {where}' if where else ''}"
    harness.sql(query, {"t": harness.open_table(location)}).fetchall()
    sys.setprofile(None)
    threading.setprofile(None)
    return {"order": list(order), "changes": changes}


def reads() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each read with its title. Each runs in a separate process."""
    with tempfile.TemporaryDirectory() as directory:
        demo = [sys.executable, "-m", "harness", "demo", f"{directory}/t"]
        subprocess.run(demo, check=True, stdout=subprocess.DEVNULL)
        for title, table, where in READS:
            command = [sys.executable, __file__, "--read", f"{directory}/t/{table}", "--where", where]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            yield title, json.loads(printed.splitlines()[-1])


def package(file: str) -> str:
    """Return the package of a file, two levels deep at most."""
    return "/".join(Path(file).parts[:-1][:2])


def main() -> None:
    """Print the figures, or read one table for the parent process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    parser.add_argument("--where", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(entered_files(options.read, options.where)))
        return
    for title, read in reads():
        packages = {package(file) for file in read["order"]}
        print(f"{title}: {len(read['order'])} files of {len(packages)} packages, {read['changes']:,} changes of file")
        if options.list:
            print(*(f"  {file}" for file in read["order"]), sep="\n")


if __name__ == "__main__":
    main()
