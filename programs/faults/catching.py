"""A server that detects planted faults: every scenario is built once by correct code, and read again under each fault.

`python catching.py COPY BUILT` reads requests from standard input, one JSON list of topics per line. It answers each
request with a line: the first scenario of BUILT, starting with the topics, that the harness in COPY does not read as
expected, or nothing. Each answer is computed in a fork that imports harness again; other libraries are imported once.
"""

import json
import os
import pickle
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace


def build_all(directory: Path) -> int:
    """Build the tables of all scenarios, write their expectations next to them, and return their number."""
    from harness.suite.scenarios.building import build
    from harness.suite.scenarios.loading import find

    scenarios = find()
    for number, scenario in enumerate(scenarios):
        place = directory / f"{number:04d}"
        built = build(scenario, place)
        expected = (scenario.name, built.address, built.expectations)
        (place / "expected.pickle").write_bytes(pickle.dumps(expected))
    return len(scenarios)


def first_catch(directory: Path, topics: Sequence[str]) -> str | None:
    """Return the first scenario that is not read as expected, starting with the first topics, or None."""
    from harness.suite.scenarios.verifying import read_with, verify

    warnings.simplefilter("ignore")  # the tables are irregular on purpose
    scenarios = [pickle.loads(file.read_bytes()) for file in sorted(directory.glob("*/expected.pickle"))]
    for name, address, expectations in sorted(scenarios, key=lambda k: [topic not in k[0] for topic in topics]):
        read = read_with(SimpleNamespace(address=address), "duckdb")
        for expectation in expectations:
            try:
                is_right = verify(expectation, read) is None
            except Exception:  # a fault may break the code in any way
                is_right = False
            if not is_right:
                return name
    return None


def serve(copy: Path, directory: Path) -> None:
    """Answer requests from standard input until it ends."""
    for library in ("duckdb", "pyarrow.dataset", "pyarrow.orc", "pyarrow.parquet", "sqlglot.dialects.duckdb", "yaml"):
        __import__(library)
    assert not any(name.partition(".")[0] == "harness" for name in sys.modules)
    sys.path.insert(0, str(copy))
    for line in sys.stdin:
        if os.fork() == 0:
            status = 1
            try:
                print(first_catch(directory, json.loads(line)) or "", flush=True)
                status = 0
            finally:
                os._exit(status)
        _, status = os.wait()
        if status != 0:
            raise SystemExit(f"no answer to {line}")


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]))
