"""The pages whose examples are run: the README, and pages below docs/ that declare it.

A page declares it with the line `<!-- examples are run -->`. Its examples run from top to bottom in a directory with
the tables of `harness demo`:

- In each `console` block, every `$ harness …` is run, and its output is compared with the lines below it. Text between
  `<<'END'` and `END` is typed into the command. `$ export NAME=VALUE` applies from there on.
- The commands of a block below the line `<!-- run, output not shown -->` must succeed, and may print anything.
- Each `python` block is executed with the names of the blocks before it. Its `assert`s are the check.
- `$ pytest …` in a `console` block must pass. Its output is not compared.

A block below the line `<!-- saved as FILE -->`, in any language, is not executed but saved to that file. All files of a
page are saved before its first block is run.

A block below the line `<!-- not run: why -->` is only shown. A block below `<!-- run with PyIceberg -->` is run if
PyIceberg is installed, by `nox -s tests-external -- catalogs`. `python tests/docs/refresh.py` updates the printed
output in the pages.

In every page of docs/, a block below the line `<!-- copy of FILE -->` must be the text of that file, and so must the
part between the lines `<!-- included: FILE -->` and `<!-- end of FILE -->`. `refresh.py` updates both.
"""

import contextlib
import io
import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import duckdb

from harness.cli import main

ROOT = Path(__file__).parents[2]
MARK = "<!-- examples are run -->"
_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>not run: [^\n]*|run with PyIceberg|run, output not shown|saved as \S+|copy of \S+) -->\n+)?"
    r"^```(?P<kind>python|console)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_SAVED = re.compile(r"^<!-- saved as (?P<file>\S+) -->\n+```\w+\n(?P<text>.*?)^```$", re.M | re.S)
_COPY = re.compile(r"^<!-- copy of (?P<file>\S+) -->\n+```\w+\n(?P<text>.*?)^```$", re.M | re.S)
_INCLUDED = re.compile(r"^<!-- included: (?P<file>\S+) -->\n\n(?P<text>.*?)\n<!-- end of (?P=file) -->$", re.M | re.S)
_FINDING = re.compile(r"different: |^\d+ errors? by ", re.MULTILINE)
_PYTEST = re.compile(r"^\$ (pytest .*)$", re.MULTILINE)
_EXPORT = re.compile(r"^\$ export (\w+)=(.*)$", re.MULTILINE)
_COMMAND = re.compile(
    r"^\$ harness (?P<command>.*?)(?P<typed> <<'END'\n(?:(?!END$).*\n)*END)?\n(?P<shown>(?:(?!\$ ).*\n)*)", re.MULTILINE
)
Answer = Callable[[tuple[str, str]], str]


@dataclass(frozen=True, slots=True)
class Example:
    """A block that is run.

    Attributes:
        kind: `python` or `console`.
        start: The position of its text in the page.
        shows_output: False if the page omits the output of the commands.
    """

    kind: str
    text: str
    start: int
    shows_output: bool


def marked() -> list[Path]:
    """Return the README and the pages of docs/ whose examples are run."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if f"{MARK}\n" in page.read_text("utf-8")]


def wants_pyiceberg(page: Path) -> bool:
    """Return whether a page has blocks that require PyIceberg."""
    return "<!-- run with PyIceberg -->" in page.read_text("utf-8")


def examples(text: str, *, with_pyiceberg: bool = False) -> list[Example]:
    """Return the blocks of a page that are run, in order."""
    return [
        Example(found["kind"], found["text"], found.start("text"), found["mark"] != "run, output not shown")
        for found in _BLOCK.finditer(text)
        if (found["mark"] != "run with PyIceberg" or with_pyiceberg)
        and not (found["mark"] or "").startswith(("not run", "saved as", "copy of"))
    ]


def with_files(text: str) -> str:
    """Return a page whose copies of files, in blocks and as parts of the page, match the files as they are now."""
    for pattern in (_COPY, _INCLUDED):
        for part in reversed(list(pattern.finditer(text))):
            content = (ROOT / part["file"]).read_text("utf-8")
            text = f"{text[: part.start('text')]}{content}{text[part.end('text') :]}"
    return text


def commands(block: str) -> list[tuple[str, str, str]]:
    """Return the `harness` commands of a console block, the text typed into each, and the lines shown below it."""
    return [(match["command"], _typed(match), match["shown"]) for match in _COMMAND.finditer(block)]


def _typed(match: re.Match[str]) -> str:
    return "".join((match["typed"] or "").splitlines(keepends=True)[1:-1])


def answer(command: str, typed: str = "") -> tuple[str, int]:
    """Run a command in this process, and return its output to both streams and its exit code.

    Fixed texts replace the versions of DuckDB and pyarrow and the working directory. The output of the shell, which
    continues after an error, is one stream, as on a terminal.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    if typed:
        err = out
    with contextlib.ExitStack() as changed:
        changed.enter_context(contextlib.redirect_stdout(out))
        changed.enter_context(contextlib.redirect_stderr(err))
        changed.enter_context(mock.patch("sys.stdin", io.StringIO(typed)))
        changed.enter_context(mock.patch.object(logging.root, "handlers", []))  # pytest's handlers would take the lines
        code = main(shlex.split(command))
    printed = "".join(stream.buffer.getvalue().decode("utf-8") for stream in dict.fromkeys((out, err)))
    printed = printed.replace(f"duckdb {duckdb.__version__}", "duckdb 2.0.0")
    printed = re.sub(r"parquet-cpp-arrow version [0-9.]+", "parquet-cpp-arrow version 26.0.0", printed)
    return printed.replace(os.getcwd(), "/home/you"), code


def run(page: Path, *, with_pyiceberg: bool = False) -> Iterator[tuple[tuple[str, str], str, str, int]]:
    """Run the blocks of a page, and yield each command with its typed text, shown lines, output, and exit code."""
    text, namespace = page.read_text("utf-8"), {}
    for file, content in _SAVED.findall(text):
        Path(file).write_text(content, "utf-8")
    with mock.patch.dict(os.environ):
        for example in examples(text, with_pyiceberg=with_pyiceberg):
            if example.kind == "python":
                lines_before = "\n" * text[: example.start].count("\n")
                exec(compile(lines_before + example.text, str(page), "exec"), namespace)
                continue
            os.environ.update({name: shlex.split(value)[0] for name, value in _EXPORT.findall(example.text)})
            for command in _PYTEST.findall(example.text):
                run_pytest(command)
            for command, typed, shown in commands(example.text):
                printed, code = answer(command, typed)
                yield (command, typed), shown if example.shows_output else printed, printed, code


def run_pytest(command: str) -> None:
    """Run a command `pytest …` of a page in a separate process, as a reader of the page would.

    Raises:
        AssertionError: A test fails or is skipped, or no test runs.
    """
    options = ["-m", *shlex.split(command), "-p", "no:cacheprovider", "-W", "ignore", "-rs"]
    ran = subprocess.run([sys.executable, *options], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"$ {command}\n{ran.stdout}{ran.stderr}"
    assert " skipped" not in ran.stdout, f"$ {command}\n{ran.stdout}"


def expected_code(transcript: str) -> int:
    """Return the exit code that goes with a transcript: 2 for an error, 1 for a difference or a finding of check."""
    return 2 if "error: " in transcript else int(_FINDING.search(transcript) is not None)


def rewritten(text: str, answered: Answer, *, with_pyiceberg: bool = False) -> str:
    """Return the page with the current output of the commands in its console blocks."""
    for example in reversed(examples(text, with_pyiceberg=with_pyiceberg)):
        if example.kind == "console" and example.shows_output:
            block = _COMMAND.sub(
                lambda at: f"$ harness {at['command']}{at['typed'] or ''}\n{answered((at['command'], _typed(at)))}",
                example.text,
            )
            text = text[: example.start] + block + text[example.start + len(example.text) :]
    return text
