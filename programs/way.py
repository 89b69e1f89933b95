"""The files that one read enters, and the size of the package: `python programs/way.py [--list] [--write]`.

The demo's tables are read on DuckDB, each with and without a filter, in a process of its own, from `open_table` to the
rows. A file is entered when one of its functions is called; bodies of modules that are imported do not count. A room is
a folder, two levels deep at most.

    --list    the files in the order of their first visit, and each wing's files and lines
    --write   the figures into docs/architecture/index.md, between `<!-- way -->` and `<!-- end -->`
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import harness

PACKAGE = Path(harness.__file__).parent
PAGE = PACKAGE.parent / "docs/architecture/index.md"
READS = (
    ("Iceberg, all rows", "orders", ""),
    ("Iceberg, a filter, vectors", "events", "id < 1500"),
    ("Delta, all rows", "clicks", ""),
    ("Delta, a filter, vectors", "clicks", "market = 'de'"),
)
"""Title, table of the demo, filter."""
_IS_FUNCTION = 1
"""The flag of code with fast locals, which bodies of modules and classes lack."""


def entered(location: str, where: str) -> dict[str, Any]:
    """Reads a table in this process. Returns the files entered, in order, and how often the read changed files."""
    root, order, last, changes = f"{PACKAGE}{os.sep}", {}, None, 0

    def seen(frame: FrameType, event: str, _: object) -> None:
        nonlocal last, changes
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root) and code.co_flags & _IS_FUNCTION:
            file = code.co_filename[len(root) :]
            order[file] = True
            changes += file != last
            last = file

    threading.setprofile(seen)
    sys.setprofile(seen)
    query = f"SELECT * FROM t{f' WHERE {where}' if where else ''}"
    harness.sql(query, {"t": harness.open_table(location)}).fetchall()
    sys.setprofile(None)
    threading.setprofile(None)
    return {"order": list(order), "changes": changes}


def ways() -> list[tuple[str, dict[str, Any]]]:
    """Each read by its title, in a process of its own."""
    found = []
    with tempfile.TemporaryDirectory() as directory:
        demo = [sys.executable, "-m", "harness", "demo", "--directory", f"{directory}/t"]
        subprocess.run(demo, check=True, stdout=subprocess.DEVNULL)
        for title, table, where in READS:
            command = [sys.executable, __file__, "--read", f"{directory}/t/{table}", "--where", where]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found.append((title, json.loads(printed.splitlines()[-1])))
    return found


def room(file: str) -> str:
    """The folder of a file of the package, two levels deep at most."""
    return "/".join(Path(file).parts[:-1][:2])


def figures(found: list[tuple[str, dict[str, Any]]]) -> str:
    """Two Markdown tables: what each read enters, and the size of the package."""
    lines = ["| A read of the demo | Files entered | Rooms | Changes of file |", "|---|---|---|---|"]
    for title, way in found:
        rooms = len({room(file) for file in way["order"]})
        lines.append(f"| {title} | {len(way['order'])} | {rooms} | {way['changes']:,} |")
    sizes = {file: len(file.read_text("utf-8").splitlines()) for file in PACKAGE.rglob("*.py")}
    lines += ["", "| Wing | Files | Lines |", "|---|---|---|"]
    for wing in sorted(path for path in PACKAGE.iterdir() if (path / "__init__.py").exists()):
        inside = [size for file, size in sizes.items() if wing in file.parents]
        lines.append(f"| `{wing.name}` | {len(inside)} | {sum(inside):,} |")
    modules = [size for file, size in sizes.items() if file.name != "__init__.py"]
    lines.append(f"| all | {len(sizes)} | {sum(sizes.values()):,} |")
    lines += ["", f"The median module has {statistics.median_high(modules)} lines."]
    return "\n".join(lines)


def main() -> None:
    """Prints the figures, or reads one table for a process that does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    parser.add_argument("--where", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.read:
        print(json.dumps(entered(asked.read, asked.where)))
        return
    found = ways()
    text = figures(found)
    print(text)
    if asked.list:
        for title, way in found:
            print(f"\n{title}", *way["order"], sep="\n  ")
    if asked.write:
        page = PAGE.read_text("utf-8")
        page = re.sub(r"(<!-- way -->\n).*?(<!-- end -->)", rf"\1\n{text}\n\n\2", page, flags=re.DOTALL)
        PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
