"""The list of attacks names tests that are there."""

from __future__ import annotations

import re

import pages

LISTED = (pages.ROOT / "tests" / "attacks.md").read_text("utf-8")


def test_each_attack_has_a_test_that_is_there():
    named = re.findall(r"`(tests/[\w/.]+|test_\w+…?)`", LISTED)
    assert len(named) > 60
    texts = [path.read_text("utf-8") for path in (pages.ROOT / "tests").rglob("test_*.py")]
    functions = set(re.findall(r"^(?:async )?def (test_\w+)", "\n".join(texts), re.M))
    lost = {
        name
        for name in named
        if not (
            (pages.ROOT / name).exists()
            or any(f == name or ("…" in name and f.startswith(name[:-1])) for f in functions)
        )
    }
    assert lost == set()
