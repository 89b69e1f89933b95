"""The page on object stores lists the options as they are: run this file to write it anew."""

from __future__ import annotations

import re
from pathlib import Path

from harness.storage.option_names import CONNECTION, NAMES, StoreKind

PAGE = Path(__file__).parents[2] / "docs/how-to/object-stores.md"
_TABLES = re.compile(r"(<!-- options: begin -->\n).*(<!-- options: end -->)", re.DOTALL)


def tables() -> str:
    """Of each service its own options, then those of every one."""
    lines = []
    for title, kind in (*((kind.value, kind) for kind in StoreKind), ("All of them", StoreKind.S3)):
        wanted = [name for name in NAMES[kind] if (name in CONNECTION) == (title == "All of them")]
        lines += [f"**{title}**", "", "| Option | Also known as |", "|---|---|"]
        lines += [f"| `{name}` | {', '.join(f'`{other}`' for other in NAMES[kind][name])} |" for name in wanted]
        lines.append("")
    return "\n".join(lines)


def page(text: str) -> str:
    return _TABLES.sub(lambda found: f"{found[1]}\n{tables()}\n{found[2]}", text)


def test_the_page_lists_the_options() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
