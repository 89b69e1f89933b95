"""The pages whose examples are run: the README, and those under docs/ that say so.

A page says so by the line `<!-- examples are run -->`. Then, in a directory that holds the tables of `harness demo`,
and from the top of the page to its end:

- in each `console` block, every `$ harness …` is run, and what it prints is compared with the lines under it; what
  stands between `<<'END'` and `END` is typed into it; `$ export NAME=VALUE` holds from there on;
- the commands of a block below the line `<!-- run, output not shown -->` must succeed, and may print anything;
- each `python` block is executed, with the names that the blocks before it made; its `assert`s are the check.

A block below the line `<!-- not run: why -->` is only shown, and one below `<!-- run with PyIceberg -->` is run where
that is installed, by `nox -s tests-external -- catalogs`. `python tests/docs/refresh.py` writes into the pages what the
commands print now.
"""

import contextlib
import io
import logging
import os
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import duckdb

from harness.cli import main

ROOT = Path(__file__).parents[2]
MARK = "<!-- examples are run -->"
_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>not run: [^\n]*|run with PyIceberg|run, output not shown) -->\n+)?"
    r"^```(?P<kind>python|console)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_EXPORT = re.compile(r"^\$ export (\w+)=(.*)$", re.MULTILINE)
_COMMAND = re.compile(
    r"^\$ harness (?P<command>.*?)(?P<typed> <<'END'\n(?:(?!END$).*\n)*END)?\n(?P<shown>(?:(?!\$ ).*\n)*)", re.MULTILINE
)
Answer = Callable[[tuple[str, str]], str]


@dataclass(frozen=True, slots=True)
class Example:
    """A block that is run. kind: python or console. start: of its text in the page.

    shows_output: False: the page leaves out what the commands print.
    """

    kind: str
    text: str
    start: int
    shows_output: bool


def marked() -> list[Path]:
    """The README and the pages of docs/ whose examples are run."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if f"{MARK}\n" in page.read_text("utf-8")]


def wants_pyiceberg(page: Path) -> bool:
    """Whether a page has blocks that are run where PyIceberg is installed."""
    return "<!-- run with PyIceberg -->" in page.read_text("utf-8")


def examples(text: str, *, with_pyiceberg: bool = False) -> list[Example]:
    """The blocks of a page that are run, in its order."""
    return [
        Example(found["kind"], found["text"], found.start("text"), found["mark"] != "run, output not shown")
        for found in _BLOCK.finditer(text)
        if (found["mark"] != "run with PyIceberg" or with_pyiceberg) and not (found["mark"] or "").startswith("not run")
    ]


def commands(block: str) -> list[tuple[str, str, str]]:
    """The `harness` commands of a console block, what is typed into each, and the lines shown under it."""
    return [(match["command"], _typed(match), match["shown"]) for match in _COMMAND.finditer(block)]


def _typed(match: re.Match[str]) -> str:
    return "".join((match["typed"] or "").splitlines(keepends=True)[1:-1])


def answer(command: str, typed: str = "") -> tuple[str, int]:
    """What a command prints, to either stream, on the newest DuckDB; and its exit code. Runs in this process.

    Of the shell, which goes on after an error, as one stream, as a terminal has it.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    if typed:
        err = out
    with contextlib.ExitStack() as changed:
        changed.enter_context(contextlib.redirect_stdout(out))
        changed.enter_context(contextlib.redirect_stderr(err))
        changed.enter_context(mock.patch("sys.stdin", io.StringIO(typed)))
        changed.enter_context(mock.patch.object(logging.root, "handlers", []))  # those of pytest would have the lines
        code = main(shlex.split(command))
    printed = "".join(stream.buffer.getvalue().decode("utf-8") for stream in dict.fromkeys((out, err)))
    return printed.replace(f"duckdb {duckdb.__version__}", "duckdb 2.0.0"), code


def run(page: Path, *, with_pyiceberg: bool = False) -> Iterator[tuple[tuple[str, str], str, str, int]]:
    """Runs the blocks of a page; each command with the typed text, the lines under it, its output and exit code."""
    text, namespace = page.read_text("utf-8"), {}
    with mock.patch.dict(os.environ):
        for example in examples(text, with_pyiceberg=with_pyiceberg):
            if example.kind == "python":
                lines_before = "\n" * text[: example.start].count("\n")
                exec(compile(lines_before + example.text, str(page), "exec"), namespace)
                continue
            os.environ.update({name: shlex.split(value)[0] for name, value in _EXPORT.findall(example.text)})
            for command, typed, shown in commands(example.text):
                printed, code = answer(command, typed)
                yield (command, typed), shown if example.shows_output else printed, printed, code


def expected_code(transcript: str) -> int:
    """The exit code that goes with a transcript: an error, a difference, or neither."""
    return 2 if "error: " in transcript else int("different: " in transcript)


def rewritten(text: str, answered: Answer, *, with_pyiceberg: bool = False) -> str:
    """The page with what the commands of its console blocks print now."""
    for example in reversed(examples(text, with_pyiceberg=with_pyiceberg)):
        if example.kind == "console" and example.shows_output:
            block = _COMMAND.sub(
                lambda at: f"$ harness {at['command']}{at['typed'] or ''}\n{answered((at['command'], _typed(at)))}",
                example.text,
            )
            text = text[: example.start] + block + text[example.start + len(example.text) :]
    return text
