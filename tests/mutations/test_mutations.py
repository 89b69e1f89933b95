"""Seeded faults: each is planted in a copy of harness, and the suite must turn red there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from faults import FAULTS, Fault

ROOT = Path(__file__).parents[2]
COPIED = ("harness", "fixtures", "tests", "conftest.py", "pyproject.toml")
SUITES = {
    "scenarios": ("tests/testing/test_scenarios.py",),
    "properties": ("tests/properties",),
}
"""What must notice a fault, the quickest first."""
TESTS_FAILED = 1

pytestmark = pytest.mark.mutation


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, on whose code every suite passes."""
    directory = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, directory / name)
    for suite in SUITES:
        assert run(suite, directory) == 0, f"the {suite} fail without any fault"
    return directory


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_the_suite_notices(fault: Fault, copy: Path, record_property) -> None:
    file = copy / "harness" / fault.file
    right = file.read_text(encoding="utf-8")
    assert right.count(fault.before) == 1, "the code has moved on: write the fault anew"
    file.write_text(right.replace(fault.before, fault.after), encoding="utf-8")
    try:
        caught_by = next((suite for suite in SUITES if run(suite, copy) == TESTS_FAILED), None)
    finally:
        file.write_text(right, encoding="utf-8")
    record_property("caught_by", caught_by)
    assert caught_by is not None


def run(suite: str, directory: Path) -> int:
    """The exit code of a suite in a copy, up to its first failure."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *SUITES[suite]]
    environment = {**os.environ, "PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(command, cwd=directory, env=environment, capture_output=True, check=False)
    return ran.returncode
