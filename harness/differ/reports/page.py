"""What every HTML report is: one document that carries its style and script, and may load and run nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable
from importlib import resources

from harness.errors import html_text
from harness.metadata.model.frames import preformatted


def document(title: str, body: Iterable[str], *, style: str, script: str | None = None) -> str:
    """A whole page. Its content security policy allows this style and script alone, by their hashes.

    title: any text. body: HTML, a line each.
    """
    scripts = "'none'" if script is None else _hash(script)
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {scripts}; base-uri 'none'; form-action 'none'"
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{escaped(title)}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        *body,
        *([] if script is None else [f"<script>{script}</script>"]),
        "</body>",
        "</html>",
    ]
    return "\n".join(lines) + "\n"


def asset(package: str, name: str) -> str:
    """A style or script that lies in a package."""
    return resources.files(package).joinpath(name).read_text("utf-8")


def escaped(value: object) -> str:
    """Any text as HTML text or attribute value."""
    return html_text(value)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# A report in a notebook: its own page in a frame, which can reach nothing around it, and its text below.
#
# The frame keeps the style of the report and of the notebook apart. Where frames are taken out, as by hosts of code
# that # show notebooks, the text is left.


_LEAST, _MOST, _LINE = 320, 760, 22
"""Pixels: the least and the most height of a frame, and what a line of the text report takes in it."""


def framed(page: str, text: str) -> str:
    """The fragment. page: the HTML report. text: the same for a terminal."""
    height = min(_MOST, _LEAST + _LINE * text.count("\n"))
    size = f'width="100%" height="{height}" style="border: 0"'
    frame = f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(page)}" {size}></iframe>'
    return f"<div>{frame}<details><summary>as text</summary>{preformatted(text)}</details></div>"
