"""Faults that real readers of tables had, each as one edit of harness.

`faults.txt` contains them and describes its format.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong edit.

    Attributes:
        file: The file, relative to `harness/`.
        before: A text that occurs once in the file.
        after: The text that replaces it.
        test: The test or file of tests that detects the fault, if scenarios and properties do not, or only by chance.
        seen: The report of a reader that had the fault.
    """

    name: str
    file: str
    before: str
    after: str
    test: str | None = None
    seen: str | None = None


def _parsed(text: str) -> Iterator[Fault]:
    for entry in re.split(r"^(?=\S+\.py: )", text, flags=re.MULTILINE)[1:]:
        first, *lines = entry.splitlines()
        file, _, name = first.partition(": ")
        before, after = ("\n".join(line[1:] for line in lines if line[:1] == sign) for sign in "-+")
        fields = dict(line.split(": ", 1) for line in lines if line.startswith(("test: ", "seen: ")))
        yield Fault(name, file, before, after, **fields)


FAULTS = tuple(_parsed(Path(__file__).with_name("faults.txt").read_text("utf-8")))
