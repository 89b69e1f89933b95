"""`python tests/docs/refresh.py`: writes into the pages what the commands print, and which options they have, now.

Look at the difference before you commit it: the pages are there to be right, and not only to agree with the code.
Examples with PyIceberg stay as they are where it is not installed.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from unittest import mock

import pages
import tables

from harness.cli import main


def refresh() -> None:
    """Rewrite the README and the pages under docs/ in place."""
    for name, written in tables.WRITTEN.items():
        page = pages.ROOT / name
        page.write_text(written(page.read_text("utf-8")), "utf-8")
    known = importlib.util.find_spec("pyiceberg") is not None
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        assert main(["demo", "--directory", "demo-tables"]) == 0
        for page in pages.marked():
            text = page.read_text("utf-8")
            namespace: dict[str, object] = {}
            answers: dict[tuple[str, str], str] = {}
            with mock.patch.dict(os.environ):
                for example in pages.examples(text, with_pyiceberg=known):  # in the order in which a reader runs them
                    if example.kind == "python":
                        exec(compile(example.text, str(page), "exec"), namespace)
                        continue
                    pages.export(example.text)
                    for command, typed, _ in pages.commands(example.text):
                        answers[command, typed] = pages.answer(command, typed)[0]
            page.write_text(pages.rewritten(text, answers.__getitem__, with_pyiceberg=known), "utf-8")
        os.chdir(pages.ROOT)


if __name__ == "__main__":
    refresh()
