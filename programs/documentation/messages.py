"""Write docs/reference/messages.md, the list of all messages of harness.

    python programs/documentation/messages.py                # after a message changed: examples of the others stay
    python programs/documentation/messages.py --run          # run the tests to record examples first, 3 minutes
    python programs/documentation/messages.py --check        # fail if the page does not list the messages of the code

A message is the text of an error or warning, a note on stderr, the name of a step of progress, or a log line.
Texts come from the source. Examples are messages that tests provoked, recorded by `message_recorder`.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tables import ROOT, code_cell

PAGE = ROOT / "docs/reference/messages.md"
HEAD = """# Messages

All errors, warnings, notes, and log lines of harness. Search this page for the words of a message that you got. Names
in braces stand for values. [Errors](errors.md) describes the classes of errors and their attributes.

The examples come from the tests. An error also names its cause, table, file, field, and rule in brackets, which are
left out here. A dash means that no test provokes the message in its own process.
"""

_OTHERS = {
    "warn": "Warnings",
    "message": "Notes",
    "progress": "Steps of progress",
    "progress_until_written": "Steps of progress",
    "debug": "Log lines",
    "info": "Log lines",
    "warning": "Log lines",
    "BadParameter": "Wrong usage of a command",
    "UsageError": "Wrong usage of a command",
}
_FUNCTIONS = {"untrusted_table_error": "InvalidTableError"}
_LONGEST_EXAMPLE = 240
_NO_EXAMPLE = "—"
_VALUE = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True, order=True)
class Message:
    """A message in the source.

    Attributes:
        heading: The class of the error, or the kind of the message.
        file: The source file, relative to harness/.
        text: The text, with names in braces for values.
        line: The first line of the call.
        last: The last line of the call.
    """

    heading: str
    file: str
    text: str
    line: int
    last: int

    def matches(self, example: str) -> bool:
        """Return whether an example can be this message."""
        parts = _VALUE.split(self.text)
        return re.fullmatch(".*".join(map(re.escape, parts)), example, re.DOTALL) is not None

    @property
    def literal(self) -> int:
        """The number of characters that are the same in all examples."""
        return len(_VALUE.sub("", self.text))

    @property
    def key(self) -> tuple[str, str]:
        """The file and the text without the names of values, which a renamed variable does not change."""
        return self.file, _without_names(self.text)


def _without_names(text: str) -> str:
    return _VALUE.sub("{}", text)


def error_classes(trees: Mapping[str, ast.Module]) -> frozenset[str]:
    """Return the names of all classes in the package that derive from HarnessError."""
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    names = {"HarnessError"}
    while more := {name for name, parents in bases.items() if parents & names} - names:
        names |= more
    return frozenset(names)


def messages_of(package: Path) -> list[Message]:
    """Return all messages of a package, in order of headings, files, and texts."""
    trees = {str(file.relative_to(package)): ast.parse(file.read_text("utf-8")) for file in package.rglob("*.py")}
    errors = error_classes(trees)
    messages = set()
    for file, tree in trees.items():
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                messages.update(_messages_in(function, file, errors))
    return sorted(messages)


def _messages_in(function: ast.FunctionDef, file: str, errors: frozenset[str]) -> Iterator[Message]:
    texts = defaultdict(list)
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            texts[node.targets[0].id].append(node.value)
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = getattr(node.func, "id", None) or getattr(node.func, "attr", "")
        heading = name if name in errors else _FUNCTIONS.get(name) or _OTHERS.get(name)
        if heading is None or (name in {"info", "debug", "warning"} and not _is_logger(node.func)):
            continue
        argument = node.args[0]
        values = texts.get(argument.id, [argument]) if isinstance(argument, ast.Name) else [argument]
        for value in values:
            for text in _alternatives(value):
                if re.search(r"[^\W\d_]{2}", _VALUE.sub("", text)):
                    yield Message(heading, file, " ".join(text.split()), node.lineno, node.end_lineno or node.lineno)


def _is_logger(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and "LOG" in function.value.id


def _alternatives(node: ast.expr) -> list[str]:
    """Return the texts that an expression can have, with names in braces for its parts that are computed."""
    match node:
        case ast.Constant(value=str(text)):
            return [text.replace("{", "(").replace("}", ")")]
        case ast.JoinedStr(values=values):
            texts = [""]
            for value in values:
                inner = value.value if isinstance(value, ast.FormattedValue) else value
                texts = [text + part for text in texts for part in _alternatives(inner)][:8]
            return texts
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [first + second for first in _alternatives(left) for second in _alternatives(right)][:8]
        case ast.IfExp(body=body, orelse=orelse):
            return [*_alternatives(body), *_alternatives(orelse)]
    return ["{" + _name(node) + "}"]


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_").lower()
        case ast.Call(func=ast.Attribute(attr="join"), args=[argument]):
            return _name(argument)
        case ast.Call(func=function):
            return _name(node.args[0]) if node.args and not isinstance(node.args[0], ast.Constant) else _name(function)
        case ast.Subscript(value=value) | ast.Starred(value=value) | ast.BinOp(left=value):
            return _name(value)
        case ast.GeneratorExp(elt=element) | ast.ListComp(elt=element):
            return _name(element)
    return "value"


def recorded_examples(tests: Sequence[str]) -> dict[tuple[str, int], list[str]]:
    """Run tests, and return the messages that they provoked, by file and line."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            *tests,
            "-p",
            "message_recorder",
            f"--record-messages={folder}",
        ]
        path = str(Path(__file__).parent)
        subprocess.run(command, cwd=ROOT, check=False, env={**os.environ, "PYTHONPATH": path})
        examples = defaultdict(list)
        for file in sorted(Path(folder).glob("*.json")):
            for place, line, text in json.loads(file.read_text("utf-8")):
                examples[place, line].append(text)
    return examples


def best_examples(
    messages: Sequence[Message], recorded: Mapping[tuple[str, int], Sequence[str]]
) -> dict[tuple[str, str], str]:
    """Return the shortest example of each message that has one, by the key of the message."""
    by_file: dict[str, list[Message]] = defaultdict(list)
    for message in messages:
        by_file[message.file].append(message)
    candidates = defaultdict(set)
    for (file, line), texts in recorded.items():
        near = [message for message in by_file[file] if message.line <= line <= message.last]
        for text in texts:
            fitting = [message for message in near if message.matches(text)]
            if fitting:
                best = max(fitting, key=lambda message: message.literal)
                candidates[best.key].add(text)
    return {key: min(texts, key=lambda text: (len(text), text)) for key, texts in candidates.items()}


def written(messages: Sequence[Message], examples: Mapping[tuple[str, str], str]) -> str:
    """Return the page."""
    lines = [HEAD]
    for heading in sorted({message.heading for message in messages}, key=lambda name: (name in _OTHERS.values(), name)):
        lines += [f"## {heading}", "", "| Message | Example | Source |", "|---|---|---|"]
        rows = {(message.file, message.text, message.key) for message in messages if message.heading == heading}
        for file, text, key in sorted(rows):
            example = examples.get(key, "")
            short = example if len(example) <= _LONGEST_EXAMPLE else example[: _LONGEST_EXAMPLE - 1] + "…"
            lines.append(f"| {code_cell(text)} | {code_cell(short) or _NO_EXAMPLE} | {code_cell(file)} |")
        lines.append("")
    return "\n".join(lines)


def examples_on(page: str) -> dict[tuple[str, str], str]:
    """Return the examples that a written page has, by the keys of messages."""
    rows = (line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith(("| `", "| <code>")))
    cells = (tuple(map(_text_of, row)) for row in rows)
    return {(file, _without_names(text)): example for text, example, file in cells if example != _NO_EXAMPLE}


def _text_of(cell: str) -> str:
    """Return the text of a cell that `code_cell` made."""
    if cell.startswith("<code>"):
        return cell.removeprefix("<code>").removesuffix("</code>").replace("&#124;", "|")
    return cell.strip("`").strip()


def main() -> None:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--run",
        nargs=argparse.REMAINDER,
        metavar="PYTEST",
        help="record examples; what follows are arguments of pytest",
    )
    parser.add_argument("--check", action="store_true", help="fail if the page is not as it would be written")
    options = parser.parse_args()
    messages = messages_of(ROOT / "harness")
    before = PAGE.read_text("utf-8") if PAGE.exists() else ""
    examples = examples_on(before)
    if options.run is not None:
        examples |= best_examples(messages, recorded_examples(options.run))
    page = written(messages, examples)
    if not options.check:
        PAGE.write_text(page, "utf-8")
    elif page != before:
        raise SystemExit(f"{PAGE.relative_to(ROOT)} is not up to date: run python {Path(__file__).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
