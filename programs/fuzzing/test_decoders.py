"""Decoders of damaged inputs, and small tables that claim to need much: a value, or a HarnessError at low cost."""

import json
import subprocess
import sys
from random import Random
from typing import Any

import bombs
import mutate_bytes
import pytest
from decoders import DECODERS, INPUTS, accepts

from harness.errors import HarnessError

KEPT = [(name, file) for name in DECODERS for file in sorted((INPUTS / name).iterdir())]


def test_every_decoder_accepts_a_stored_input():
    assert {name for name, file in KEPT if accepts(DECODERS[name], file.read_bytes())} == set(DECODERS)
    assert {place.name for place in INPUTS.iterdir()} == set(DECODERS)
    assert sum(file.stat().st_size for _, file in KEPT) < 50_000


@pytest.mark.parametrize(("name", "file"), KEPT, ids=[f"{name}-{file.name}" for name, file in KEPT])
def test_stored_inputs_and_damaged_copies(name, file):
    data = file.read_bytes()
    accepts(DECODERS[name], data)
    for number in range(60):
        rng = Random(f"{name} {file.name} {number}")
        accepts(DECODERS[name], mutate_bytes.damaged(data, rng))


def test_another_exception_goes_on():
    def refuses(data):
        raise HarnessError("no")

    assert not accepts(refuses, b"")
    with pytest.raises(ZeroDivisionError):
        accepts(lambda data: 1 / 0, b"")


MOST_MIB = 1024


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[Any]]:
    folder = tmp_path_factory.mktemp("bombs")
    run = subprocess.run([sys.executable, bombs.__file__, str(folder)], capture_output=True, text=True, check=True)
    return {(figures[0], figures[1]): figures[2:] for figures in map(json.loads, run.stdout.splitlines())}


@pytest.mark.parametrize("reader", ["read", "judge"])
@pytest.mark.parametrize("name", bombs.MEASURED)
def test_a_bomb_is_an_error_that_costs_little(measured: Any, name: str, reader: str) -> None:
    outcome, message, mebibytes, _ = measured[name, reader]
    assert outcome in ("LimitError", "CorruptFileError", "CorruptDeleteError"), message
    assert "file " in message
    assert mebibytes < MOST_MIB
