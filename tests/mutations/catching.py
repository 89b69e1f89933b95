"""What a planted fault changes: every scenario is built once, by right code, and read again under the fault.

As a program, in a process of its own: `python catching.py BUILT TOPIC...` reads the tables in BUILT, those of the
topics first, and prints the name of the first scenario whose read is not as expected.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace


def build_all(directory: Path) -> int:
    """Make the tables of all scenarios, each with its expectations beside it; how many."""
    from harness.testing.scenarios import build, find

    scenarios = find()
    for number, scenario in enumerate(scenarios):
        place = directory / f"{number:04d}"
        built = build(scenario, place)
        expected = (scenario.name, built.address, built.expectations)
        (place / "expected.pickle").write_bytes(pickle.dumps(expected))
    return len(scenarios)


def first_catch(directory: Path, topics: Sequence[str]) -> str | None:
    """The first scenario that is not read as expected, those with a topic in their name first; None: all are."""
    from harness.testing.scenarios.verifying import Matched, read_with, verify

    kept = [pickle.loads(file.read_bytes()) for file in sorted(directory.glob("*/expected.pickle"))]
    for name, address, expectations in sorted(kept, key=lambda k: not any(topic in k[0] for topic in topics)):
        read = read_with(SimpleNamespace(address=address), "duckdb")
        for expectation in expectations:
            try:
                is_right = verify(expectation, read) == Matched()
            except Exception:  # a fault may break the code in any way
                is_right = False
            if not is_right:
                return name
    return None


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # what is odd about a table is its point
    print(first_catch(Path(sys.argv[1]), sys.argv[2:]) or "")
