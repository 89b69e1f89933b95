"""The pages about other tools: their examples run with the tools themselves (nox -s tests-external)."""

import re
from pathlib import Path

import pytest

from harness.cli import main

pytestmark = pytest.mark.external
PAGES = Path(__file__).parents[2] / "docs/how-to"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"(?:#|--) (\S+)\n")


@pytest.mark.parametrize(("tool", "package"), [("ibis", "ibis"), ("dbt", "dbt.adapters.duckdb")])
@pytest.mark.filterwarnings("default")  # warnings of the tools are not errors
def test_the_examples_of_a_page_are_true(tool, package, tmp_path, monkeypatch):
    pytest.importorskip(package, reason=f"{tool} is not installed: nox -s tests-external brings it")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DBT_SEND_ANONYMOUS_USAGE_STATS", "false")
    assert main(["demo", "demo-tables"]) == 0
    namespace: dict[str, object] = {}
    page = (PAGES / f"{tool}.md").read_text("utf-8")
    assert "<!-- examples are run by nox -s tests-external -->" in page
    for kind, text in _BLOCK.findall(page):
        if kind == "python":
            exec(compile(text, tool, "exec"), namespace)
        elif (file := _FILE.match(text)) is not None:
            Path(file[1]).parent.mkdir(exist_ok=True)
            Path(file[1]).write_text(text, "utf-8")
