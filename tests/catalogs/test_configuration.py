"""Catalogs by the names that a project or a user gave them."""

from pathlib import Path

import pytest

import harness
from harness.cli import main
from harness.errors import RequestError, StorageError, TableNotFoundError
from harness.metadata.catalogs import pyiceberg, resolving
from harness.testing.unity_server import UnityServer
from harness.writing.delta.builder import DeltaTable


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """The working directory, in a project; nothing is configured elsewhere."""
    inner = tmp_path / "project" / "src"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(pyiceberg, "is_installed", lambda: False)
    table = DeltaTable.create(tmp_path / "project" / "lake" / "sales" / "orders", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    return tmp_path / "project"


def say(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(text)


def say_at_home(project: Path, text: str) -> None:
    place = project.parent / "home" / "harness"
    place.mkdir(parents=True)
    (place / "config.toml").write_text(text)


WAREHOUSE = '[tool.harness.catalogs.lake]\ntype = "warehouse"\nlocation = "lake"\n'


def test_a_table_opens_by_the_name_of_its_catalog(project, capfd):
    say(project, WAREHOUSE)
    for name, catalog in [("lake.sales.orders", None), ("sales.orders", "LAKE"), ("sales.orders", None)]:
        table = harness.open_table(name, catalog=catalog)
        assert (table.name, table.snapshot().to_arrow()["id"].to_pylist()) == ("lake.sales.orders", [1])
    assert main(["list"]) == 0
    assert capfd.readouterr().out.split() == ["catalogs:", "name", "type", "warehouse", "lake", "warehouse", "lake"]


def test_unity_with_the_token_of_the_environment(project, monkeypatch):
    with UnityServer(token="abc") as server:
        server.add("main.sales.orders", project / "lake" / "sales" / "orders", managed=False)
        text = f'[tool.harness.catalogs.prod]\ntype = "unity"\nuri = "{server.uri}"\nprefix = "main"\ntimeout = 5\n'
        say(project, text)
        monkeypatch.setenv("UNITY_CATALOG_TOKEN", "abc")  # which a project does not get
        with pytest.raises(StorageError, match=r"Catalog prod at .* requires a token"):
            harness.open_table("prod.sales.orders")
        monkeypatch.setenv("HARNESS_CATALOG__PROD__TOKEN", "abc")
        assert harness.open_table("prod.sales.orders").name == "prod.sales.orders"
        monkeypatch.delenv("HARNESS_CATALOG__PROD__TOKEN")
        monkeypatch.setenv("OTHER", "abc")
        (project / "pyproject.toml").unlink()
        say_at_home(project, f'{text}token-variable = "OTHER"\n')
        assert harness.open_table("prod.sales.orders").name == "prod.sales.orders"


PROD = "[tool.harness.catalogs.prod]\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.harness", "Cannot read the configuration: "),
        ("tool.harness.catalogs = 1\n", "expected a table for each catalog"),
        ("tool.harness.catalogs.prod = 1\n", "expected a table with type = 'unity' or 'warehouse'"),
        (f"{PROD}type = 'hive'\n", "expected a table with type = 'unity' or 'warehouse'"),
        (f"{PROD}type = 'unity'\n", "uri is missing"),
        (f"{PROD}type = 'unity'\nuri = 1\n", "expected text .*field tool.harness.catalogs.prod.uri"),
        (f"{PROD}type = 'unity'\nurl = 'x'\n", "expected one of type, uri, prefix, timeout, storage-options"),
        (
            f"{PROD}type = 'unity'\nuri = 'x'\ntoken = 'x'\n",
            "a token must not be stored in a file; set HARNESS_CATALOG__PROD__TOKEN",
        ),
        (
            f"{PROD}type = 'unity'\nuri = 'x'\ntoken-variable = 'PATH'\n",
            "as a project may be untrusted; set HARNESS_CATALOG__PROD__TOKEN",
        ),
    ],
)
def test_a_configuration_that_is_none(project, text, words):
    say(project, text)
    with pytest.raises(RequestError, match=words) as error:
        resolving.configured_catalogs()
    assert (error.value.cause, error.value.file) == ("CatalogMisconfigured", str(project / "pyproject.toml"))


def test_a_name_that_two_configurations_have(project, monkeypatch):
    say(project, WAREHOUSE)
    monkeypatch.setattr(pyiceberg, "is_installed", lambda: True)
    monkeypatch.setattr(pyiceberg, "configured_properties", lambda: {"lake": {"type": "rest"}})
    with pytest.raises(RequestError, match="Catalog name lake is ambiguous: harness's configuration and PyIceberg's"):
        resolving.configured_catalogs()


def test_a_project_puts_no_server_in_place_of_its_users(project):
    say_at_home(project, f"{PROD}type = 'unity'\nuri = 'https://own'\n")
    say(project, f"{PROD}type = 'unity'\nuri = 'https://evil'\n")
    with pytest.raises(RequestError, match="Catalog name prod is ambiguous: your own configuration and the project"):
        resolving.configured_catalogs()


def test_a_name_of_no_catalog(project):
    say(project, WAREHOUSE)
    with pytest.raises(
        TableNotFoundError, match="no catalog 'lak' is configured: no configured catalog \\(lake\\) has the"
    ):
        harness.open_table("lak.sales.orders")
    with pytest.raises(
        RequestError,
        match="Cannot find catalog 'lak': there is no such directory, and similar configured catalogs are lake",
    ):
        harness.open_table("sales.orders", catalog="lak")


@pytest.mark.parametrize("is_installed", [True, False])
def test_where_no_catalog_is_configured_it_is_said_where_one_can_be(project, monkeypatch, capfd, is_installed):
    monkeypatch.setattr(pyiceberg, "is_installed", lambda: is_installed)
    monkeypatch.setattr(pyiceberg, "configured_properties", dict)
    monkeypatch.setattr(pyiceberg, "default_name", lambda: None)
    assert main(["list", "--verbose"]) == 0
    assert main(["sql", "FROM prod.sales.orders"]) == 2
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert "see .pyiceberg.yaml, PYICEBERG_CATALOG__NAME__URI and [tool.harness.catalogs.NAME] of pyproject" in line
        assert ("those of PyIceberg need it: pip install" in line) is not is_installed


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({"uri": "https://host"}, "rest"),
        ({"uri": "thrift://host:9083"}, "hive"),
        ({"uri": "sqlite:///prod.db"}, "sql"),
        ({"uri": "postgresql+psycopg2://host/db"}, "sql"),
        ({"type": "GLUE", "uri": "https://host"}, "glue"),
        ({"uri": "https://host", "py-catalog-impl": "mine.Catalog"}, None),
        ({"uri": "ftp://host"}, None),
        ({}, None),
    ],
)
def test_what_a_catalog_of_pyiceberg_is(properties, kind):
    assert pyiceberg.catalog_kind(properties) == kind
