"""The help of commands, and the parsing of `--storage-option`."""

import os
import re
import shlex
import subprocess
import sys

import click
import pytest

from harness.cli import main
from harness.cli.app import COMMANDS, application, imported
from harness.cli.options import named_table, storage_options


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_come_first_and_are_commands_that_parse(name, capfd):
    assert main([*name.split(), "-h"]) == 0
    before = capfd.readouterr().out.partition("\nOptions:\n")[0].partition("\nArguments:\n")[0]
    summary, _, rest = before.partition("Examples:\n")
    assert len(summary.splitlines()) <= 7
    examples = re.findall(r"^      harness (.+)$", rest, re.MULTILINE)
    assert examples
    for example in examples:
        words = shlex.split(example.partition(" < ")[0])
        found = application()
        context = click.Context(found, info_name="harness")
        for own in name.split():
            called, found, words = found.resolve_command(context, words)
            assert called == own
        found.make_context(name, words, parent=context)


def test_the_help_has_each_command_in_a_section(capfd):
    assert main(["--help"]) == 0
    sections = capfd.readouterr().out.partition("\nInspect tables:\n")[2]
    shown = re.findall(r"^  (\w+) ", sections, re.MULTILINE)
    assert sorted(shown) == sorted({name.partition(" ")[0] for name in COMMANDS})


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_in_the_list_is_the_one_of_the_command(name):
    assert imported(name).get_short_help_str(limit=200) == COMMANDS[name][1]


_IMPORTS = """
import sys
from harness.cli import main
try:
    main(sys.argv[1:])
except SystemExit:  # of click, after a completion
    pass
print(*sys.modules)
"""
COMMAND_MODULES = {f"harness.cli.{place.partition(':')[0]}" for place, _ in COMMANDS.values()}


def completion(line: str) -> dict[str, str]:
    """Return the environment of bash when it requests completions of a line."""
    return {
        "_HARNESS_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        (["--version"], {}, set()),
        (["--help"], {}, {"click"}),
        (["scenarios", "--help"], {}, {"click"}),
        ([], completion("harness "), {"click"}),
        ([], completion("harness sch"), {"click"}),
        ([], completion("harness scenarios r"), {"click"}),
        ([], completion("harness count --"), {"click", "harness.cli.inspection"}),
        ([], completion("harness sql --"), {"click", "harness.cli.query"}),
        ([], completion("harness diff --"), {"click", "harness.cli.diff"}),
        ([], completion("harness pull --"), {"click", "harness.cli.pull"}),
        ([], completion("harness shell --"), {"click", "harness.cli.shell.command"}),
        ([], completion("harness rule --"), {"click", "harness.cli.rule"}),
    ],
    ids=[
        "version",
        "help",
        "help of a group",
        "Tab",
        "Tab sch",
        "Tab scenarios r",
        "Tab count --",
        "Tab sql --",
        "Tab diff --",
        "Tab pull --",
        "Tab shell --",
        "Tab rule --",
    ],
)
def test_help_and_completion_import_the_module_of_no_other_command(arguments, environment, expected):
    run = subprocess.run(
        [sys.executable, "-c", _IMPORTS, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {*run.stdout.splitlines()[-1].split()}
    heavy = {"click", "numpy", "pyarrow", "duckdb"}
    assert loaded & (heavy | COMMAND_MODULES) == expected


def test_the_help_of_each_command_has_the_options_for_opening_tables_in_a_section(capfd):
    assert main(["plan", "-h"]) == 0
    opening = capfd.readouterr().out.partition("\nOpening tables:\n")[2]
    assert re.findall(r"^  (?:-\w, )?--([\w-]+)", opening, re.MULTILINE) == [
        "catalog",
        "storage-option",
        "allow-root",
        "planning",
        "verbose",
        "untrusted",
        "set",
    ]
    for name in ("info", "metadata", "sql", "diff", "pull", "shell"):
        assert main([name, "-h"]) == 0
        assert capfd.readouterr().out.partition("\nOpening tables:\n")[2].split() == opening.split()


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (None, {}),
        (["anon=true", "b=false", "token=null"], {"anon": True, "b": False, "token": None}),
        (["n=12", "m=-1", "x=1.5", "z=0"], {"n": 12, "m": -1, "x": 1.5, "z": 0}),
        (['secret="123"', 'x="a\\"b"', 'e=""'], {"secret": "123", "x": 'a"b', "e": ""}),
        (["n=012", "e=12e34", "f=.5", "p=+1"], {"n": "012", "e": "12e34", "f": ".5", "p": "+1"}),
        (["v=1.2.3", "d=12a", "a=False", "c=None"], {"v": "1.2.3", "d": "12a", "a": "False", "c": "None"}),
        (["a=NaN", "e= true", "f=", "g=b=c"], {"a": "NaN", "e": " true", "f": "", "g": "b=c"}),
        (['c={"endpoint_url": "u", "n": [1, null]}', "l=[1]"], {"c": {"endpoint_url": "u", "n": [1, None]}, "l": [1]}),
        (["c.url=http://h:9000/?x=1", "c.d.e=1"], {"c": {"url": "http://h:9000/?x=1", "d": {"e": 1}}}),
        (['c={"a": 1}', "c.b=2", 'c={"d": 3}'], {"c": {"a": 1, "b": 2, "d": 3}}),
        (['s3://my.bucket={"dfs.x": "k"}'], {"s3://my.bucket": {"dfs.x": "k"}}),
    ],
)
def test_values_are_typed(texts, expected) -> None:
    assert repr(storage_options(texts)) == repr(expected)  # False is not 0


NO_JSON = "must be JSON; put other text in double quotes"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["anon"], "--storage-option number 1 is not of the form NAME=VALUE"),
        (["a=1", "=x"], "--storage-option number 2 is not of the form NAME=VALUE"),
        (["a..b=1"], "--storage-option number 1 is not of the form NAME=VALUE"),
        (["a=1", "a=2"], "--storage-option 'a' is given twice"),
        (["a.b=1", "a.b=2"], "--storage-option 'a.b' is given twice"),
        (["a.b=1", 'a={"b": 2}'], "--storage-option 'a.b' is given twice"),
        (["a.b=1", "a=2"], "--storage-option 'a' is given twice"),
        (["a=1", "a.b=2"], "--storage-option 'a.b': 'a' already has a value, so it cannot have nested options"),
        (["a={secret"], f"--storage-option 'a': a value that begins with {{ {NO_JSON}"),
        (['a="secret'], f"--storage-option 'a': a value that begins with \" {NO_JSON}"),
        (["a=[NaN]"], f"--storage-option 'a': a value that begins with [ {NO_JSON}"),
    ],
)
def test_errors_about_options_do_not_show_the_value(texts, message) -> None:
    with pytest.raises(click.BadParameter) as caught:
        storage_options(texts)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("o=lake/orders", ("o", "lake/orders")),
        ("o=s3://b/t?x=y", ("o", "s3://b/t?x=y")),
        *(
            (place, ("orders", place))
            for place in ("lake/orders", "./orders/", "orders", "file:orders", "s3://b/orders/")
        ),
        *((place, ("orders", place)) for place in ("s3://b/day=1/orders", "lake/orders/metadata/v3.metadata.json")),
        *((place, ("orders", place)) for place in ("./x/../orders", "prod.sales.orders", '"a.b".orders')),
        (".", ("place", ".")),
        ("metadata/v1.metadata.json", ("place", "metadata/v1.metadata.json")),
    ],
)
def test_a_table_alone_gives_its_name(tmp_path, monkeypatch, text, expected):
    (tmp_path / "place").mkdir()
    monkeypatch.chdir(tmp_path / "place")
    assert named_table(text) == expected


@pytest.mark.parametrize("text", ["=lake/orders", "o=", "lake/v1.0", "/", '"a.b"."c.d"'])
def test_a_table_that_gives_no_name_for_sql_is_an_error(text):
    with pytest.raises(click.BadParameter, match="NAME="):
        named_table(text)
