"""Hypothesis profiles, the Spark session of a run, and the plug-in of this project."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Without bytecode, each process that a test starts compiles all sources again. Git ignores the bytecode.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None) is not None:
    sys.dont_write_bytecode = False

import hypothesis  # pytest rewrites its modules, which takes seconds without bytecode

# A pause of a shared machine fails no test. CI draws the same examples every day; nightly runs draw others.
_CI = {"derandomize": True, "database": None, "print_blob": True} if "CI" in os.environ else {}
hypothesis.settings.register_profile("harness", deadline=None, max_examples=25, **_CI)
hypothesis.settings.load_profile("harness")

# pytest loads the plug-in by its entry point, which a checkout has only if it is installed.
pytest_plugins = [] if "harness.testing.plugin" in sys.modules else ["harness.testing.plugin"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--harness-repro", metavar="DIR", help="where failures of property tests leave repro directories")


@pytest.fixture(scope="session")
def spark(harness_spark: SparkSession) -> SparkSession:
    """The one Spark session of the run."""
    return harness_spark
