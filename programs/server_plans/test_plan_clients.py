"""The marks on the page about plans of servers, for each installed client."""

import pytest
from server_plans import CASES, END, PAGE, START, installed, run, version

pytestmark = pytest.mark.external


@pytest.fixture(scope="module")
def marks():
    """The marks in the page by case and client."""
    table = PAGE.read_text("utf-8").partition(START)[2].partition(END)[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    clients, _, *cases = rows
    return {(row[0], client): mark for row in cases for client, mark in zip(clients[1:], row[1:], strict=True)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize(("client", "command"), installed().items())
def test_the_page(marks, case, client, command):
    assert run(case, command).mark == marks[case.name, f"{client} {version(client, command)}".strip()]
