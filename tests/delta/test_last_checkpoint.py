import hashlib

import pytest

from harness.metadata.delta.log_files import parse_hint

GOOD = b'{"version":10,"size":3,"parts":2}'
# The example of the protocol's section on JSON checksums, and a version; the checksum is of the canonical text.
EXAMPLE = (
    """{"k0":"'v 0'", "k1":{"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]}, "version":10"""
)
CANONICAL = (
    '"k0"="%27v%200%27","k1"+"k2"=2,"k1"+"k3"+0="v3","k1"+"k3"+1+0=1,"k1"+"k3"+1+1=2,"k1"+"k3"+2+"k4"="v4",'
    '"k1"+"k3"+2+"k5"+0="v5","k1"+"k3"+2+"k5"+1="v6","k1"+"k3"+2+"k5"+2="v7","version"=10'
)
SEALED = f'{EXAMPLE},"checksum":"{hashlib.md5(CANONICAL.encode()).hexdigest()}"}}'.encode()


@pytest.mark.parametrize(
    ("data", "version"),
    [
        pytest.param(GOOD, 10, id="no checksum"),
        pytest.param(SEALED, 10, id="right checksum"),
        pytest.param(SEALED.replace(b"v7", b"v8"), None, id="wrong checksum"),
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
