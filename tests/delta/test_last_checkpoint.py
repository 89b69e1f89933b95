from __future__ import annotations

import hashlib

import pytest

from harness.metadata.delta.log_files import Hint, parse_hint


def sealed(document: str, text: str) -> bytes:
    """A JSON object with its checksum, which is taken of the canonical text."""
    digest = hashlib.md5(text.encode()).hexdigest()
    return f'{document[:-1]},"checksum":"{digest}"}}'.encode()


@pytest.mark.parametrize(
    ("document", "text"),
    [
        pytest.param(
            # That of the protocol's section on JSON checksums, and a version.
            """{"k0":"'v 0'", "k1":{"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]}, """
            '"version":1}',
            '"k0"="%27v%200%27","k1"+"k2"=2,"k1"+"k3"+0="v3","k1"+"k3"+1+0=1,"k1"+"k3"+1+1=2,"k1"+"k3"+2+"k4"="v4",'
            '"k1"+"k3"+2+"k5"+0="v5","k1"+"k3"+2+"k5"+1="v6","k1"+"k3"+2+"k5"+2="v7","version"=1',
            id="example of the protocol",
        ),
        pytest.param(
            '{"a":1.50,"b":1E+3,"c":-0,"d":12345678901234567890,"version":1}',
            '"a"=1.50,"b"=1E+3,"c"=-0,"d"=12345678901234567890,"version"=1',
            id="numbers as written",
        ),
        ('{"version":1,"b":true,"a":null,"c":false}', '"a"=null,"b"=true,"c"=false,"version"=1'),
        ('{"k é":"A-z0.9_~/+%","version":1}', '"k%20%C3%A9"="A-z0.9_~%2F%2B%25","version"=1'),
        ('{"a":{"checksum":"x"},"version":1}', '"a"+"checksum"="x","version"=1'),
        pytest.param('{"a":[],"b":{},"c":"","version":1}', '"c"="","version"=1', id="nothing has no leaf"),
    ],
)
def test_the_checksum_is_of_the_canonical_text(document: str, text: str) -> None:
    assert parse_hint(sealed(document, text)) == Hint(1)
    assert parse_hint(sealed(document, text + " ")) is None


GOOD = b'{"version":10,"size":3,"parts":2}'
SEALED = sealed(GOOD.decode(), '"parts"=2,"size"=3,"version"=10')


@pytest.mark.parametrize(
    ("data", "version"),
    [
        pytest.param(GOOD, 10, id="no checksum"),
        pytest.param(SEALED, 10, id="right checksum"),
        pytest.param(GOOD.replace(b"}", b',"checksum":5}'), None, id="checksum of another type"),
        pytest.param(b"\xff\xfe", None, id="not UTF-8"),
        pytest.param(b"[10]", None, id="list"),
        pytest.param(b"10", None, id="number"),
        pytest.param(b"{}", None, id="no version"),
        pytest.param(b'{"version":"10"}', None, id="text"),
        pytest.param(b'{"version":10.0}', None, id="float"),
        pytest.param(b'{"version":-1}', None, id="negative"),
        pytest.param(b'{"version":null}', None, id="null"),
        pytest.param(b'{"version":true}', None, id="boolean"),
        pytest.param(b'{"version":NaN}', None, id="not JSON"),
        pytest.param(b'{"version":10,"version":10}', None, id="duplicate key"),
        pytest.param(b'{"version":10,"a":{"b":1,"b":1}}', None, id="duplicate inner key"),
        pytest.param(b'{"version":' + b"1" * 5000 + b"}", None, id="endless number"),
        pytest.param(b'{"version":1,"a":' + b"[" * 100_000 + b"}", None, id="endless nesting"),
        pytest.param(b'{"version":1,"a":"\\ud800","checksum":"x"}', None, id="lone surrogate"),
    ],
)
def test_parse_hint(data: bytes, version: int | None) -> None:
    hint = parse_hint(data)
    assert (None if hint is None else hint.version) == version
