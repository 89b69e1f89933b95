"""Rules that messages cite can be looked up, also in an installed package."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import harness
from harness.cli import main
from harness.rules import rules

ROOT = Path(__file__).parents[1]
NAME = re.compile(r"(?:iceberg|delta|frontier) (?:trap )?[A-Z]*[0-9.]*[0-9][a-z]?")


KNOWN = {each.name for each in rules()}


def cited_rules() -> set[str]:
    """The rules that harness puts into messages: whole constants, arguments of `corrupt`, and `[…]` in texts."""
    found = set()
    for path in sorted((ROOT / "harness").rglob("*.py")):
        text = path.read_text("utf-8")
        if not re.search(rf"""["'\[]{NAME.pattern}|corrupt\(""", text):
            continue  # parsing all files takes seconds
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Constant(value=str(value)) if NAME.fullmatch(value):
                    found.add(value)
                case ast.Constant(value=str(value)):
                    found.update(re.findall(rf"\[({NAME.pattern})\]", value))
                case ast.Call(func=ast.Name(id="corrupt"), args=[*_, ast.Constant(value=str(value))]) if value[
                    0
                ].isdigit():
                    found.add(f"iceberg {value}")
    return found


def test_every_rule_that_users_are_shown_can_be_looked_up(capfd):
    names = sorted(cited_rules())
    assert len(names) > 100
    assert KNOWN.issuperset(names)
    for name in names[:: len(names) // 5]:
        assert main(["rule", *name.split()]) == 0, name
        assert capfd.readouterr().out.startswith(f"{name}: ")


def test_the_pages_come_with_the_package(tmp_path):
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert packed["packages"] == ["harness"]
    shutil.copytree(Path(harness.__file__).parent, tmp_path / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs" / "rules", tmp_path / packed["force-include"]["docs/rules"])
    printed = subprocess.run(
        [sys.executable, "-m", "harness", "rule", "delta", "L38"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        timeout=60,
    )
    assert printed.stdout.startswith("delta L38: ")
