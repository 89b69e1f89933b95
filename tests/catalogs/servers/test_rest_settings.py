"""PyIceberg's REST client against a server that tries to obtain credentials: what each host receives."""

import gzip
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Recorded, recording

import harness
from harness.metadata.catalogs import pyiceberg_rest

pytest.importorskip("pyiceberg", reason="PyIceberg is not installed: nox -s tests-external -- catalogs")
pytestmark = pytest.mark.external

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "key-of-the-environment",
    "AWS_SECRET_ACCESS_KEY": "secret-of-the-environment",
    "AWS_SESSION_TOKEN": "session-of-the-environment",
    "AWS_REGION": "eu-west-1",
}
TOKEN = {"access_token": "of-the-server", "token_type": "bearer"}


@pytest.fixture
def elsewhere() -> Iterator[Recorded]:
    with recording(lambda path: (200, {}, {**TOKEN, "namespaces": [["sales"]]})) as recorded:
        yield recorded


@pytest.fixture(autouse=True)
def environment(configure, monkeypatch):
    """AWS credentials in the environment. `configure` has removed the real ones of the user who runs the tests."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


SIGNED = {"rest.sigv4-enabled": "true", "rest.signing-name": "execute-api", "rest.signing-region": "eu-west-1"}
RUN = {"auth": {"type": "custom", "impl": "subprocess.Popen", "custom": {"args": ["touch", "was-run"]}}}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("part", ["defaults", "overrides"])
@pytest.mark.parametrize("user_properties", [{"token": "of-the-user"}, {"credential": "id:of-the-user"}, {}], ids=str)
@pytest.mark.parametrize(
    ("settings", "name_pattern"),
    [
        (SIGNED, r"rest\.si"),
        ({**SIGNED, "uri": "ELSEWHERE"}, "uri|rest"),
        ({"uri": "ELSEWHERE"}, "uri"),
        ({"oauth2-server-uri": "ELSEWHERE"}, "oauth2-server-uri"),
        (RUN, "auth"),
        ({"header.Host": "evil.example"}, r"header\.Host"),
    ],
)
def test_the_configuration_of_a_server_obtains_no_credentials(
    elsewhere, configure, settings, name_pattern, user_properties, part
):
    said = {key: elsewhere.uri if value == "ELSEWHERE" else value for key, value in settings.items()}
    document = {"defaults": {}, "overrides": {}, part: said, **TOKEN, "namespaces": [["sales"]]}
    with recording(lambda path: (200, {}, document)) as catalog:
        configure("prod", {"uri": catalog.uri, **user_properties})
        if part == "defaults" and "uri" in settings:  # below the user's own `uri`
            said.pop("uri")
        if said:
            with pytest.raises(harness.RequestError, match=f"its server sets (?:{name_pattern})"):
                harness.open_catalog("prod").namespaces()
    assert elsewhere.requests == []
    assert not Path("was-run").exists()
    assert not any("of-the-environment" in text for text in catalog.requests)


@pytest.mark.parametrize("status", [301, 307, 308])
def test_a_redirection_to_another_host_is_not_followed(elsewhere, configure, status):
    redirect = (status, {"Location": f"{elsewhere.uri}/v1/config"}, {})
    with recording(lambda path: redirect) as catalog:
        configure("prod", {"uri": catalog.uri, "token": "of-the-user", "header.X-Key": "of-the-user"})
        with pytest.raises(harness.StorageError, match="redirects to another address"):
            harness.open_catalog("prod").namespaces()
    assert elsewhere.requests == []


def test_a_server_may_name_another_path_on_its_own_host(configure):
    def answer(path: str) -> tuple[int, dict[str, str], Any]:
        settings = {"uri": f"{catalog.uri}/inner", "prefix": "main", "nessie.is-nessie-catalog": "true"}
        return 200, {}, {"defaults": {}, "overrides": settings, "namespaces": [["sales"]]}

    with recording(answer) as catalog:
        configure("prod", {"uri": catalog.uri, "token": "of-the-user"})
        assert harness.open_catalog("prod").namespaces() == (("sales",),)
    assert catalog.requests[-1].startswith("GET /inner/v1/main/namespaces")


@pytest.mark.parametrize("token", [lambda number: "again", lambda number: str(number % 7)], ids=["one", "seven"])
def test_pages_without_an_end_are_an_error(configure, token):
    def answer(path: str) -> tuple[int, dict[str, str], Any]:
        listed = {"namespaces": [["sales"]], "identifiers": [{"namespace": ["sales"], "name": "orders"}]}
        return 200, {}, {"defaults": {}, "overrides": {}, **listed, "next-page-token": token(len(catalog.requests))}

    with recording(answer) as catalog:
        configure("prod", {"uri": catalog.uri, "token": "of-the-user"})
        found = harness.open_catalog("prod")
        with pytest.raises(harness.StorageError, match="an endless list of namespaces"):
            found.namespaces()
        with pytest.raises(harness.StorageError, match="an endless list of identifiers"):
            found.tables(("sales",))
    assert len(catalog.requests) < 20


def test_pages_are_followed_to_their_end(configure):
    def answer(path: str) -> tuple[int, dict[str, str], Any]:
        page = int(path.partition("pageToken=")[2] or 0)
        parent = ["a", "b"] if "parent=a%1Fb" in path else []
        listed = {
            "namespaces": [[*parent, f"n{page}"]],
            "identifiers": [{"namespace": ["sales", "eu"], "name": f"t{page}"}],
        }
        more = {"next-page-token": str(page + 1)} if page < 2 else {"next-page-token": None}
        return 200, {}, {"defaults": {}, "overrides": {}, **listed, **more}

    with recording(answer) as catalog:
        configure("prod", {"uri": catalog.uri})
        found = harness.open_catalog("prod")
        assert found.namespaces() == (("n0",), ("n1",), ("n2",))
        assert found.namespaces(("a", "b")) == (("a", "b", "n0"), ("a", "b", "n1"), ("a", "b", "n2"))
        assert found.tables(("sales", "eu")) == tuple(("sales", "eu", f"t{page}") for page in range(3))
    assert any("/namespaces/sales%1Feu/tables" in text for text in catalog.requests)


def test_an_answer_is_read_up_to_a_limit(configure, monkeypatch):
    monkeypatch.setattr(pyiceberg_rest, "LARGEST_ANSWER", 1 << 20)
    content = gzip.compress(b'{"defaults": {"a": "' + bytes(1 << 24) + b'"}}')
    headers = {"Content-Encoding": "gzip"}
    with recording(lambda path: (200, headers, content)) as catalog:
        configure("prod", {"uri": catalog.uri})
        with pytest.raises(harness.StorageError, match="returned an answer of more than 1 MiB"):
            harness.open_catalog("prod")


@pytest.mark.parametrize("status", [400, 401, 403, 500])
def test_a_token_repeated_by_the_server_is_not_shown(configure, status):
    def answer(path: str) -> tuple[int, dict[str, str], Any]:
        headers = catalog.requests[-1]
        return status, {}, {"error": {"type": "Denied", "message": f"no: {headers}", "code": status}}

    with recording(answer) as catalog:
        configure("prod", {"uri": catalog.uri, "token": "of-the-user"})
        with pytest.raises(harness.HarnessError) as caught:
            harness.open_catalog("prod").namespaces()
    assert "of-the-user" in catalog.requests[0]
    assert "of-the-user" not in "".join(traceback.format_exception(caught.value))
