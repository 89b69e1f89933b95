"""click commands built from the signatures of functions."""

import dataclasses
import enum
from pathlib import Path
from typing import Annotated

import click
import pytest

from harness.cli.parameters import Argument, Command, Option


class Level(enum.Enum):
    LOW = "low"
    HIGH = "very high"


@dataclasses.dataclass
class Group:
    context: click.Context
    quiet: Annotated[bool, Option("--quiet", "-q", help="Say less.", panel="Rare options")] = False
    size: Annotated[list[int] | None, Option(min=1, metavar="N", help="A size.")] = None


CALLS = []


def example(
    place: Annotated[str, Argument(metavar="PLACE", help="The place.")],
    files: Annotated[list[Path] | None, Argument(metavar="FILE", help="Files.")] = None,
    max_level: Annotated[Level, Option(help="The level.")] = Level.LOW,
    *,
    group: Group,
) -> None:
    """Do something. And
    more.

    Examples:
        harness example x
    """
    CALLS.append((place, files, max_level, group.quiet, group.size, group.context.info_name))


def call(*words: str) -> tuple[object, ...]:
    command = Command("example", example)
    with command.make_context("example", [*words]) as context:
        command.invoke(context)
    return CALLS.pop()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["x"], ("x", None, Level.LOW, False, None)),
        (["x", "a", "b"], ("x", [Path("a"), Path("b")], Level.LOW, False, None)),
        (["-q", "x", "--max-level=very high"], ("x", None, Level.HIGH, True, None)),
        (["x", "--size", "1", "a", "--size", "20"], ("x", [Path("a")], Level.LOW, False, [1, 20])),
    ],
)
def test_values_have_the_types_of_the_annotations(words, expected):
    assert call(*words) == (*expected, "example")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Missing argument 'PLACE'"),
        (["x", "--size", "0"], "0 is not in the range x>=1"),
        (["x", "--max-level", "LOW"], "'LOW' is not one of 'low', 'very high'"),
        (["x", "--max-lvl", "low"], "--max-lvl"),
        (["x", ""], "'' is not a path"),
        (["x", "-"], "'-' is not a path"),
    ],
)
def test_other_values_are_wrong_usage(words, message):
    with pytest.raises(click.UsageError) as caught:
        call(*words)
    assert message in caught.value.format_message()


def test_the_help_has_a_section_for_each_panel():
    command = Command("example", example)
    with command.make_context("example", [], resilient_parsing=True, max_content_width=80) as context:
        assert command.get_help(context) == HELP


HELP = """\
Usage: example [OPTIONS] PLACE [FILE]...

  Do something. And more.

  Examples:
      harness example x

Arguments:
  PLACE  The place.
  FILE   Files.

Options:
  --max-level [low|very high]  The level.  [default: low]
  --size N                     A size.  [x>=1]
  --help                       Show this message and exit.

Rare options:
  -q, --quiet  Say less."""
