"""`python tests/docs/refresh.py`: updates the printed output of commands in the pages.

Review the changes before you commit them: the pages must be right, and not only agree with the code. Examples with
PyIceberg stay unchanged if it is not installed.
"""

import importlib.util
import os
import tempfile

import pages

from harness.cli import main


def refresh() -> None:
    """Rewrite the README and the pages under docs/ in place."""
    for page in sorted((pages.ROOT / "docs").rglob("*.md")):
        text = page.read_text("utf-8")
        if (current := pages.with_files(text)) != text:
            page.write_text(current, "utf-8")
    known = importlib.util.find_spec("pyiceberg") is not None
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        assert main(["demo", "demo-tables"]) == 0
        for page in pages.marked():
            answers = {asked: printed for asked, _, printed, _ in pages.run(page, with_pyiceberg=known)}
            text = pages.rewritten(page.read_text("utf-8"), answers.__getitem__, with_pyiceberg=known)
            page.write_text(text, "utf-8")
        os.chdir(pages.ROOT)


if __name__ == "__main__":
    refresh()
