"""Decoders on the inputs that are kept for Atheris, and on those damaged: a value or a HarnessError."""

from random import Random

import mutate_bytes
import pytest
from decoders import CORPUS, DECODERS, accepts

from harness.errors import HarnessError

KEPT = [(name, file) for name in DECODERS for file in sorted((CORPUS / name).iterdir())]


def test_every_decoder_takes_something():
    assert {name for name, file in KEPT if accepts(DECODERS[name], file.read_bytes())} == set(DECODERS)
    assert {place.name for place in CORPUS.iterdir()} == set(DECODERS)
    assert sum(file.stat().st_size for _, file in KEPT) < 50_000


@pytest.mark.parametrize(("name", "file"), KEPT, ids=[f"{name}-{file.name}" for name, file in KEPT])
def test_what_is_kept_and_damage_of_it(name, file):
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
