"""A scenario as one Python file that a reader's maintainer can run without harness.

The file contains the table. It writes the table and prints the rows that reads must return, the rules that require
them, and the commands for other readers.
"""

from __future__ import annotations

import base64
import io
import lzma
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from harness.errors import RequestError, counted, visible_lines
from harness.rules import find_rule
from harness.suite import table_script
from harness.suite.commands import commands
from harness.suite.json_rows import json_lines_of
from harness.suite.runner import table_at
from harness.suite.scenarios.building import build
from harness.suite.scenarios.model import BuiltScenario, ExpectedError, ResolvedExpectation, Scenario
from harness.suite.scores import read_text
from harness.writing.local_files import FIRST_TIMESTAMP_MS, UNCOMPRESSED

MAX_BYTES = 30 * 1024
"""The largest script in bytes, so that issue trackers accept it."""
_MAX_ROWS = 30
"""The number of rows per read that the description shows. A file beside the table contains all rows."""
_ARCHIVE_WIDTH = 100


def script(scenario: Scenario) -> str:
    """Return the text of the script.

    The table is built in two directories. If the two tables differ only in the directory's path, a script can write the
    table anywhere.

    Raises:
        RequestError: The scenario cannot be built, a path is stored in a form that cannot be replaced, or the
            script is too long.
    """
    name = scenario.name.rpartition("/")[2]
    with tempfile.TemporaryDirectory(prefix="harness-script-") as folder:
        roots = [Path(table_script.table_root(folder, part)) for part in ("a", "b")]
        started, token = time.time(), UNCOMPRESSED.set(True)
        try:
            built, _ = (build(scenario, root) for root in roots)
        finally:
            UNCOMPRESSED.reset(token)
        story = _story(built).replace(str(roots[0]), table_script.STORY_ROOT)
        _write_rows(built, roots)
        archive = _archive(roots[0], roots[1], started)
    code = Path(table_script.__file__).read_text("utf-8").split('"""\n', 1)[1]
    text = visible_lines(story).replace("\\", "\\\\").replace('"""', r"\"\"\"")
    lines = "\n".join(archive[i : i + _ARCHIVE_WIDTH] for i in range(0, len(archive), _ARCHIVE_WIDTH))
    ending = f'TABLE = """\n{lines}\n"""\n\nif __name__ == "__main__":\n    main({name!r}, __doc__, TABLE)\n'
    program = f'#!/usr/bin/env python3\n"""{text}"""\n\n{code.strip()}\n\n\n{ending}'
    if (size := len(program.encode())) > MAX_BYTES:
        raise RequestError(
            f"Cannot write a script of {size:,} bytes for {scenario.name}: the limit is {MAX_BYTES:,}; shrink the table"
        )
    return program


def _write_rows(built: BuiltScenario, roots: Sequence[Path]) -> None:
    """Write the rows of each read beside the table as JSON lines."""
    for each in built.expectations:
        if not isinstance(each.expected, pa.Table):
            continue
        text = json_lines_of(each.expected)
        for root in roots:
            path = root / _rows_file(each)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text.replace(str(roots[0]), str(root)), "utf-8")


def _rows_file(read: ResolvedExpectation) -> str:
    return f"expected/{read.number}.jsonl"


def _archive(root: Path, copy: Path, started: float) -> str:
    """Return the files below a root as text, with SCRIPT_ROOT in place of the root.

    Args:
        root: The root of the table.
        copy: The root of the same table, built a second time.
        started: A time before which no file of this table was written.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(root.rglob("*")):
            member = tarfile.TarInfo(path.relative_to(root).as_posix())
            if path.is_dir():
                member.type = tarfile.DIRTYPE
                archive.addfile(member)
                continue
            data = table_script.relocate(path.read_bytes(), str(root), table_script.SCRIPT_ROOT)
            other = copy / member.name
            if (
                not other.is_file()
                or table_script.relocate(data, table_script.SCRIPT_ROOT, str(copy)) != other.read_bytes()
            ):
                raise RequestError(
                    f"Cannot write a script: {member.name} stores its path in a form that cannot be replaced, for "
                    "example compressed or cut; do not set a codec"
                )
            time_s = path.stat().st_mtime
            member.mtime = FIRST_TIMESTAMP_MS // 1000 if time_s >= started - 1 else time_s
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return base64.b85encode(lzma.compress(buffer.getvalue(), preset=9)).decode()


def _story(built: BuiltScenario) -> str:
    """Return the description at the start of the script, which the script also prints."""
    scenario = built.scenario
    lines = [scenario.title, "", f"Scenario {scenario.name} of harness. The rules:", *map(_citation, scenario.clauses)]
    lines += ["", "python THIS_FILE [DIRECTORY] writes the table below the directory and prints this text. The table:"]
    lines.append(str(built.metadata_path or built.location))
    for each in built.expectations:
        lines += ["", f"== Read {each.number}: {read_text(each)}", *_expected_lines(each)]
        if each.at.changes is None and not each.opening:
            for reader, text in commands(table_at(built, each), each.columns, each.where).items():
                lines += [f"-- {reader}", text]
    return "\n".join(lines) + "\n"


def _citation(clause: str) -> str:
    """Return a clause as a line: a rule with its title and links, or the section of a specification unchanged."""
    try:
        rule = find_rule(clause)
    except RequestError:
        return f"- {clause}"
    return " ".join((f"- {rule.name}: {rule.title}.", *(rule.links or (rule.source,))))


def _expected_lines(read: ResolvedExpectation) -> Iterator[str]:
    if read.open is not None:
        yield f"The specification leaves this open: {read.open}. Harness decided:"
    if read.policy is not None:
        yield f"The specification does not require this, harness does: {read.policy}."
    match read.expected:
        case ExpectedError(kind=kind, match=words):
            yield f"Must be refused: an error and no rows ({kind}{'' if words is None else f', {words}'})."
        case pa.Table() as rows:
            types = ", ".join(f"{field.name} {field.type}" for field in rows.schema)
            note = "" if rows.num_rows <= _MAX_ROWS else f", the first {_MAX_ROWS} of them below"
            yield f"Must return {counted(rows.num_rows, 'row')} in any order{note}; all in {_rows_file(read)}: {types}"
            yield json_lines_of(rows.slice(0, _MAX_ROWS)).rstrip("\n")
        case _:
            yield "Nothing."
