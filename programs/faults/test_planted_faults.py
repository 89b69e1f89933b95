"""Each fault is planted in a copy of harness, where a scenario, or else a property, must fail.

A fault of queries, which scenarios do not cover, names the file of tests that must fail.
"""

import functools
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from catching import build_all
from faults import FAULTS, Fault

ROOT = Path(__file__).parents[2]
COPIED = ("harness", "tests", "programs", "docs", "conftest.py", "pyproject.toml")
PROPERTIES = "tests/properties"
WITHOUT_SPARK = ("-m", "not harness_spark", "--harness-engines=duckdb")
PASSED, TESTS_FAILED = 0, 1
SECONDS = itertools.count(1)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, in which faults are planted."""
    directory = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, directory / name)  # including compiled files, which saves time
        else:
            shutil.copy(ROOT / name, directory / name)
    return directory


@pytest.fixture(scope="session")
def scenario_that_catches(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str | None]]:
    """A function that returns the first scenario that the copy does not read as expected.

    Without a fault, it returns None.
    """
    tables = tmp_path_factory.mktemp("tables")
    assert build_all(tables) > 0
    command = [sys.executable, str(copy / "programs/faults/catching.py"), str(copy), str(tables)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tables, **pipes) as server:

        def ask(topics: list[str]) -> str | None:
            print(json.dumps(topics), file=server.stdin, flush=True)
            answer = server.stdout.readline()
            assert answer.endswith("\n"), "the server of catching.py ended"
            return answer.strip() or None

        assert ask([]) is None, "a scenario fails without any fault"
        yield ask
        server.stdin.close()


@pytest.fixture(scope="session")
def passes(copy: Path) -> Callable[[str], bool]:
    """A function that returns whether a file of tests passes on the copy without faults. Results are cached."""
    return functools.cache(lambda tests: failing_test(copy, tests, *WITHOUT_SPARK) is None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="catching.py forks")
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_the_suite_notices(fault: Fault, copy: Path, scenario_that_catches, passes, record_property) -> None:
    file = copy / "harness" / fault.file
    right = file.read_text(encoding="utf-8")
    if fault.test is not None:
        assert passes(fault.test), "a test fails without any fault"
    assert right.count(fault.before) == 1, "the code has moved on: write the fault anew"
    write(file, right.replace(fault.before, fault.after))
    try:
        if fault.test is not None:
            caught_by = failing_test(copy, fault.test, *WITHOUT_SPARK)
        else:
            caught_by = scenario_that_catches(topics(fault.file)) or failing_test(copy, PROPERTIES)
    finally:
        write(file, right)
    record_property("caught_by", caught_by)
    assert caught_by is not None


def topics(file: str) -> list[str]:
    """Return words in the names of scenarios that are likely to detect a fault of a file, most likely first."""
    *folders, name = file.removesuffix(".py").replace("_", "-").split("/")
    of_format = [folder for folder in folders if folder in ("delta", "iceberg")]
    return [*(f"{folder}/{name}" for folder in of_format), name, *of_format, "deletes"]


def write(file: Path, text: str) -> None:
    """Write a text with a new modification second, because Python identifies compiled files by second and size."""
    file.write_text(text, encoding="utf-8")
    second = next(SECONDS)
    os.utime(file, (second, second))


def failing_test(copy: Path, tests: str, *options: str) -> str | None:
    """Return the first failing test of a file or directory on the copy's code, and its failure, or None."""
    arguments = ["-n0", "-q", "-x", "--tb=no", "-rf", "-p", "no:cacheprovider", *options, tests]
    command = [sys.executable, "-m", "pytest", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(copy), "COLUMNS": "300"}
    ran = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode == -signal.SIGABRT:  # a library aborted because of invalid input
        return "the tests are aborted"
    assert ran.returncode in (PASSED, TESTS_FAILED), ran.stdout + ran.stderr
    failed = [line.removeprefix("FAILED ") for line in ran.stdout.splitlines() if line.startswith("FAILED ")]
    return failed[0] if failed else None
