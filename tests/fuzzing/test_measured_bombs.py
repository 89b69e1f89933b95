"""Small tables that ask for much, under the default limits: each is an error, and costs less than 1 GiB."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1]))

import bombs

MOST_MIB = 1024


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[Any]]:
    folder = tmp_path_factory.mktemp("bombs")
    run = subprocess.run([sys.executable, bombs.__file__, str(folder)], capture_output=True, text=True, check=True)
    return {(found[0], found[1]): found[2:] for found in map(json.loads, run.stdout.splitlines())}


@pytest.mark.parametrize("reader", ["read", "judge"])
@pytest.mark.parametrize("name", bombs.MEASURED)
def test_a_bomb_is_an_error_that_costs_little(measured: Any, name: str, reader: str) -> None:
    outcome, message, mebibytes, _ = measured[name, reader]
    assert outcome in ("LimitError", "CorruptFileError", "CorruptDeleteError"), message
    assert "file " in message
    assert mebibytes < MOST_MIB
