"""The map of the tests has every folder of tests."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def folders() -> ModuleType:
    spec = importlib.util.spec_from_file_location("folders", Path(__file__).parent / "house/folders.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_folder_of_tests_is_in_the_map(folders):
    assert sorted(folders.rows()) == sorted(folders.lines())


def test_seconds_are_those_of_a_folders_tests(folders, tmp_path):
    cases = [("tests.delta.test_a", "1.5"), ("tests.iceberg.columns.test_b", "0.25"), ("tests.test_c", "2")]
    shown = "".join(f'<testcase classname="{name}" time="{time}"/>' for name, time in [*cases, cases[0]])
    (tmp_path / "report.xml").write_text(f"<testsuites><testsuite>{shown}</testsuite></testsuites>")
    assert folders.seconds(tmp_path / "report.xml") == {"delta": 3.0, "iceberg": 0.25, ".": 2.0}
