"""Values that nothing converts are those that Typer's own conversion gives."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from harness.cli.app import take_plain_values


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "LARGE"


def application(given: dict[str, Any]) -> typer.Typer:
    app = typer.Typer()

    @app.callback()
    def every(verbose: bool = False) -> None:
        given["verbose"] = verbose

    @app.command()
    def order(
        what: str,
        more: Annotated[list[str] | None, typer.Argument()] = None,
        note: Annotated[list[str] | None, typer.Option()] = None,
        size: Size = Size.SMALL,
        other: Annotated[Size | None, typer.Option(case_sensitive=False)] = None,
        by: Annotated[Path | None, typer.Option()] = None,
        count: Annotated[int, typer.Option(max=5)] = 1,
        pair: Annotated[tuple[str, int], typer.Option()] = ("a", 1),
        sizes: Annotated[list[Size] | None, typer.Option()] = None,
        fast: bool = False,
        loud: Annotated[str, typer.Option(parser=str.upper)] = "no",
    ) -> None:
        given.update(locals())
        given.pop("given", None)

    return app


def outcome(words: list[str], *, plain: bool) -> dict[str, Any] | str:
    given: dict[str, Any] = {}
    command = typer.main.get_command(application(given))
    if plain:
        take_plain_values(command)  # type: ignore[arg-type]
    try:
        command.main(args=words, prog_name="order", standalone_mode=False)
    except typer.BadParameter as error:
        return f"{type(error).__name__}: {error.format_message()}"
    return given


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["order", "x"], {"what": "x", "size": Size.SMALL, "note": None, "count": 1, "fast": False, "verbose": False}),
        (["order", "7"], {"what": "7"}),
        (["order", ""], {"what": ""}),
        (["order", "x", "y", "z"], {"what": "x", "more": ["y", "z"]}),
        (["order", "x", "--note", "1", "--note", "b"], {"note": ["1", "b"]}),
        (["order", "x", "--size", "LARGE"], {"size": Size.LARGE}),
        (["order", "x", "--size", "large"], None),
        (["order", "x", "--size", "SMALL"], None),  # the name of a choice is none of its values
        (["order", "x", "--other", "large"], {"other": Size.LARGE}),
        (["order", "x", "--sizes", "small", "--sizes", "LARGE"], {"sizes": [Size.SMALL, Size.LARGE]}),
        (["order", "x", "--loud", "yes"], {"loud": "YES"}),
        (["order", "x", "--by", "a/b"], {"by": Path("a/b")}),
        (["order", "x", "--count", "5"], {"count": 5}),
        (["order", "x", "--count", "6"], None),
        (["order", "x", "--count", "six"], None),
        (["order", "x", "--pair", "b", "2"], {"pair": ("b", 2)}),
        (["--verbose", "order", "x", "--fast"], {"fast": True, "verbose": True}),
        (["order"], None),
        (["order", "x", "--fast", "--nothing"], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_each_value_is_what_typer_makes_of_it(words: list[str], expected: dict[str, Any] | None) -> None:
    try:
        found = outcome(words, plain=True)
    except Exception as error:  # of usage, such as an option that there is not
        assert expected is None
        with pytest.raises(type(error), match=str(error)):
            outcome(words, plain=False)
        return
    assert found == outcome(words, plain=False)
    if expected is None:
        assert isinstance(found, str)
    else:
        assert isinstance(found, dict)
        assert {name: found[name] for name in expected} == expected
