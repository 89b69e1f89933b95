"""What harness logs: requests with bytes, files that are skipped; never a secret, and it configures no handler."""

import logging
import re

import fsspec
import pytest

from harness.cli import main
from harness.errors import MissingFileError
from harness.storage.clients import Traffic
from harness.storage.stores import Storage
from harness.testing.writing.delta.builder import DeltaTable


@pytest.fixture
def told(caplog) -> list[str]:
    """What was logged, without times."""
    caplog.set_level(logging.DEBUG, "harness")

    class Lines(list):
        def __iter__(self):
            return iter([re.sub(r", \d+ ms$", "", f"{r.name}: {r.getMessage()}") for r in caplog.records])

    return Lines()


def test_requests_say_what_came(told, monkeypatch):
    monkeypatch.setattr("harness.storage.clients.TRAFFIC", Traffic(clock=lambda: 0.0))
    fsspec.filesystem("memory").pipe("/logged/d/f", b"12345")
    storage = Storage()
    storage.read("memory://logged/d/f")
    storage.read("memory://logged/d/f", offset=3, length=9)
    storage.exists("memory://logged/d/g")
    storage.names("memory://logged/d")
    with pytest.raises(MissingFileError):
        storage.read("memory://logged/d/g")
    assert list(told) == [
        "harness.storage: read all of memory://logged/d/f: 5 bytes",
        "harness.storage: read from byte 3 of memory://logged/d/f: 2 bytes",
        "harness.storage: look for file memory://logged/d/g: not there",
        "harness.storage: list files of memory://logged/d: 1 files",
        "harness.storage: read all of memory://logged/d/g: FileNotFoundError",
    ]


def test_verbose_says_it_on_stderr(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [])
    t = DeltaTable.create(tmp_path / "t", {"id": "long"})
    arguments = ["plan", str(t.directory), "--format", "json"]
    assert main([*arguments, "--verbose"]) == 0
    assert "harness.plan: Snapshot(" in capfd.readouterr().err
    assert main(arguments) == 0
    assert capfd.readouterr().err == ""
    assert logging.getLogger("harness").level == logging.NOTSET
