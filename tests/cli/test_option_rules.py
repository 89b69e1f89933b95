"""The rules about options in docs/reference/cli.md, checked for the parameters of every command."""

from collections import defaultdict
from types import SimpleNamespace

import pytest

from harness.cli.app import COMMANDS, imported

SHORT = {"-c": "--command", "-k": "-k", "-n": "--max-rows", "-o": "--output", "-v": "--verbose"}
"""Short options, and the long option that each means in every command."""
LISTS = {"--columns", "--engines", "--exclude", "--ignore", "--keys", "--select"}
METAVARS = {
    "--at": "WHEN",
    "--from": "WHEN",
    "--to": "WHEN",
    "--engine": "NAME",
    "--max-rows": "N",
    "--output": "FILE",
    "--table": "[NAME=]TABLE",
}
METAVARS |= dict.fromkeys(LISTS, "A,B")
MAY_HOLD_COMMAS = {"DIR", "FILE", "SQL", "TEXT"}
"""Values that cannot be separated by commas, because they may contain one. Values NAME=VALUE may too."""
ONE_FOR_EACH_SIDE = {("diff", "--at")}
"""The option that may be repeated although its values contain no comma."""
OWN_TEXT = {
    "--format": "names the formats of the command",
    "--output": "of a report, it may be repeated; a script has one format",
    **dict.fromkeys(("--at", "--table", "--dialect", "--engines"), "diff has two sides"),
    "--engine": "scenarios reread takes readers of other projects too",
    "--from": "changes excludes it for Iceberg tables by default",
    "--keys": "diff matches rows of two sides, changes those of one commit, and trace those of a range",
    "--max-rows": "head reads so many rows; diff counts differences",
}
"""Options with one meaning whose help differs by command, and why."""
OPENING = ["--catalog", "--storage-option", "--allow-root", "--planning", "--verbose", "--untrusted", "--set"]
MOST = {"pull": 19, "diff": 24}
"""The maximum number of options of a command."""


def options(name: str) -> list[SimpleNamespace]:
    """Return the options of a command, each with its longest name, its short names, and what its help shows."""
    return [
        SimpleNamespace(
            name=max(each.opts, key=len),
            short=[text for text in each.opts if not text.startswith("--")],
            metavar=each.metavar,
            repeated=each.multiple,
            text=each.help,
        )
        for each in imported(name).params
        if each.param_type_name == "option"
    ]


EVERY = {name: options(name) for name in COMMANDS}

RULES = {
    "a short option stands for one option": lambda command, option: all(
        SHORT.get(short) == option.name for short in option.short
    ),
    "an option has its short option everywhere": lambda command, option: (
        option.name not in SHORT.values() or len(option.short) == 1
    ),
    "an option is written alike": lambda command, option: METAVARS.get(option.name, option.metavar) == option.metavar,
    "a list is separated by commas": lambda command, option: (
        not option.repeated
        or "=" in option.metavar
        or option.metavar in MAY_HOLD_COMMAS
        or (command, option.name) in ONE_FOR_EACH_SIDE
    ),
    "an option has a text": lambda command, option: bool(option.text),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("command", COMMANDS)
def test_options_follow_the_rule(command, rule):
    assert [option.name for option in EVERY[command] if not RULES[rule](command, option)] == []


def test_an_option_of_several_commands_has_one_text():
    texts = defaultdict(set)
    for command in COMMANDS:
        for option in EVERY[command]:
            texts[option.name].add(option.text)
    assert {name for name, found in texts.items() if len(found) > 1} == OWN_TEXT.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_has_both_engine_and_engines(command):
    assert len({option.name for option in EVERY[command]} & {"--engine", "--engines"}) <= 1


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "shell"])
def test_a_format_has_a_place(command):
    """Every command with formats can write to a file, except for the shell, which writes many results."""
    names = {option.name for option in EVERY[command]}
    assert "--format" not in names or "--output" in names


@pytest.mark.parametrize("command", COMMANDS)
def test_tables_are_opened_by_the_same_options(command):
    names = [option.name for option in EVERY[command] if option.name in OPENING]
    assert names == OPENING or "--allow-root" not in names


@pytest.mark.parametrize(("command", "most"), MOST.items())
def test_a_command_has_few_options(command, most):
    help_itself = 1
    assert len(EVERY[command]) + help_itself <= most
