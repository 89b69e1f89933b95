"""The README and the pages show what happens: their examples are run, and what they show is compared with it."""

from __future__ import annotations

import pages
import pytest


@pytest.mark.filterwarnings("default::harness.HarnessWarning")
@pytest.mark.parametrize("page", pages.marked(), ids=lambda page: page.relative_to(pages.ROOT).as_posix())
def test_the_examples_of_a_page_are_true(page, demo, monkeypatch):
    monkeypatch.chdir(demo)
    text = page.read_text("utf-8")
    found = pages.examples(text)
    assert found, "the page says that its examples are run, and has none"
    namespace: dict[str, object] = {}
    for example in found:
        if example.kind == "python":
            line = text[: example.start].count("\n")
            exec(compile("\n" * line + example.text, str(page), "exec"), namespace)
        for command, typed, shown in pages.commands(example.text) if example.kind == "console" else ():
            printed, code = pages.answer(command, typed)
            assert printed == shown, f"$ harness {command}"
            assert code == pages.expected_code(shown), f"$ harness {command}"


def test_the_tour_and_the_readme_are_run():
    names = {page.relative_to(pages.ROOT).as_posix() for page in pages.marked()}
    assert {"README.md", "docs/tour.md", "docs/how-to/time-travel.md", "docs/how-to/test-with-pytest.md"} <= names


def test_a_block_that_is_not_run_says_why():
    text = "<!-- not run: starts Spark -->\n```python\n1 / 0\n```\n\n```console\n$ harness --version\nold\n```\n"
    assert [example.kind for example in pages.examples(text)] == ["console"]
    assert pages.rewritten(text, lambda asked: f"{asked[0]} now\n").endswith(
        "$ harness --version\n--version now\n```\n"
    )
