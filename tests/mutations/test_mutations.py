"""Seeded faults: each is planted in a copy of harness, and a scenario, or else a property, must turn red there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from catching import build_all
from faults import FAULTS, Fault

ROOT = Path(__file__).parents[2]
COPIED = ("harness", "tests", "conftest.py", "pyproject.toml")
PROPERTIES = "tests/properties"
TOPICS = {
    "delta/bounds.py": ["delta/skipping"],
    "delta/commit_times.py": ["delta/time-travel"],
    "delta/deletion_vectors.py": ["delta/deletion-vectors"],
    "delta/partition_values.py": ["delta/partitions"],
    "delta/replay.py": ["delta/log", "delta/checkpoints"],
    "delta/segment.py": ["delta/checkpoints", "delta/log"],
    "delta/skipping.py": ["delta/skipping"],
    "engines/duckdb/branch.py": ["row-"],
    "engines/duckdb/columns.py": ["iceberg/schema", "iceberg/types"],
    "iceberg/manifest_entries.py": ["iceberg/manifests", "iceberg/metadata/row"],
    "iceberg/pruning.py": ["iceberg/pruning"],
    "iceberg/snapshots.py": ["iceberg/time-travel"],
    "iceberg/transforms.py": ["iceberg/pruning"],
    "projection.py": ["iceberg/schema", "iceberg/partitions"],
}
"""Where the scenarios are that likely catch a fault of a file; of others: among those of deletes."""
PASSED, TESTS_FAILED = 0, 1

pytestmark = pytest.mark.mutation


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of all scenarios."""
    directory = tmp_path_factory.mktemp("tables")
    assert build_all(directory) > 0
    return directory


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory, tables: Path) -> Path:
    """A copy of the project, on whose code nothing is caught."""
    directory = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, directory / name)
    assert scenario_that_catches(directory, tables, []) is None, "scenarios fail without any fault"
    return directory


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_the_suite_notices(fault: Fault, copy: Path, tables: Path, record_property) -> None:
    file = copy / "harness" / fault.file
    right = file.read_text(encoding="utf-8")
    assert right.count(fault.before) == 1, "the code has moved on: write the fault anew"
    file.write_text(right.replace(fault.before, fault.after), encoding="utf-8")
    try:
        topics = TOPICS.get(fault.file, ["iceberg/deletes"])
        caught_by = scenario_that_catches(copy, tables, topics) or property_that_catches(copy)
    finally:
        file.write_text(right, encoding="utf-8")
    record_property("caught_by", caught_by)
    assert caught_by is not None


def scenario_that_catches(copy: Path, tables: Path, topics: list[str]) -> str | None:
    """The first scenario that is not read as expected by the copy's code."""
    ran = _run(copy, "tests/mutations/catching.py", str(tables), *topics)
    assert ran.returncode == PASSED, ran.stdout + ran.stderr
    return ran.stdout.strip() or None


def property_that_catches(copy: Path) -> str | None:
    """The first test of properties that fails on the copy's code, in the quick profile."""
    if not (copy / PROPERTIES).is_dir():
        return None
    ran = _run(copy, "-m", "pytest", "-q", "-x", "--tb=no", "-rf", "-p", "no:cacheprovider", PROPERTIES)
    assert ran.returncode in (PASSED, TESTS_FAILED), ran.stdout + ran.stderr
    failed = [line.split()[1] for line in ran.stdout.splitlines() if line.startswith("FAILED ")]
    return failed[0] if failed else None


def _run(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
