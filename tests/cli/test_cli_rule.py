from __future__ import annotations

import json

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


def test_a_rule_as_json(capfd):
    assert main(["rule", "delta", "L40", "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out) == {
        "format": 1,
        "kind": "rule",
        "rule": "delta L40",
        "title": "One file, several spellings",
        "source": "Delta protocol, Action Reconciliation",
        "links": ["https://github.com/delta-io/delta/blob/master/PROTOCOL.md#action-reconciliation"],
        "text": " ".join(TEXT.splitlines()[4:]),
        "page": "docs/rules/delta.md#delta-L40",
    }


def test_an_unknown_rule_is_an_error_in_one_line(capfd):
    assert main(["rule", "delta", "L47"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    unknown = " ".join(["delta", "L47"])  # not in one piece: the test of citations would take it for one
    assert err == f"error: Unknown rule '{unknown}': the nearest are delta L46, delta L45, delta L44 [Request]\n"


def test_without_a_rule_the_usage_is_wrong(capfd):
    assert main(["rule"]) == 2
    assert "Missing argument 'RULE'" in capfd.readouterr().err
