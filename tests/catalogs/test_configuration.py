"""Catalogs by the names in the configuration of a project or a user."""

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
    """The working directory in a project, without any other configuration."""
    inner = tmp_path / "project" / "src"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(pyiceberg, "is_installed", lambda: False)
    table = DeltaTable.create(tmp_path / "project" / "lake" / "sales" / "orders", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    return tmp_path / "project"


def write_project_configuration(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(text)


def write_user_configuration(project: Path, text: str) -> None:
    place = project.parent / "home" / "harness"
    place.mkdir(parents=True)
    (place / "config.toml").write_text(text)


WAREHOUSE = '[tool.harness.catalogs.lake]\ntype = "warehouse"\nlocation = "lake"\n'


def test_a_table_opens_by_the_name_of_its_catalog(project, capfd):
    write_project_configuration(project, WAREHOUSE)
    for name, catalog in [("lake.sales.orders", None), ("sales.orders", "LAKE"), ("sales.orders", None)]:
        table = harness.open_table(name, catalog=catalog)
        assert (table.name, table.snapshot().to_arrow()["id"].to_pylist()) == ("lake.sales.orders", [1])
    assert main(["list"]) == 0
    assert capfd.readouterr().out.split() == ["catalogs:", "name", "type", "warehouse", "lake", "warehouse", "lake"]


def test_unity_with_the_token_of_the_environment(project, monkeypatch):
    with UnityServer(token="abc") as server:
        server.add("main.sales.orders", project / "lake" / "sales" / "orders", managed=False)
        text = f'[tool.harness.catalogs.prod]\ntype = "unity"\nuri = "{server.uri}"\nprefix = "main"\ntimeout = 5\n'
        write_project_configuration(project, text)
        monkeypatch.setenv("UNITY_CATALOG_TOKEN", "abc")  # a project must not receive this token
        with pytest.raises(StorageError, match=r"Catalog prod at .* requires a token"):
            harness.open_table("prod.sales.orders")
        monkeypatch.setenv("HARNESS_CATALOG__PROD__TOKEN", "abc")
        assert harness.open_table("prod.sales.orders").name == "prod.sales.orders"
        monkeypatch.delenv("HARNESS_CATALOG__PROD__TOKEN")
        monkeypatch.setenv("OTHER", "abc")
        (project / "pyproject.toml").unlink()
        write_user_configuration(project, f'{text}token-variable = "OTHER"\n')
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
def test_an_invalid_configuration(project, text, words):
    write_project_configuration(project, text)
    with pytest.raises(RequestError, match=words) as error:
        resolving.configured_catalogs()
    assert (error.value.cause, error.value.file) == ("CatalogMisconfigured", str(project / "pyproject.toml"))


def test_a_name_that_two_configurations_have(project, monkeypatch):
    write_project_configuration(project, WAREHOUSE)
    monkeypatch.setattr(pyiceberg, "is_installed", lambda: True)
    monkeypatch.setattr(pyiceberg, "configured_properties", lambda: {"lake": {"type": "rest"}})
    with pytest.raises(RequestError, match="Catalog name lake is ambiguous: harness's configuration and PyIceberg's"):
        resolving.configured_catalogs()


def test_a_project_cannot_replace_a_users_server(project):
    write_user_configuration(project, f"{PROD}type = 'unity'\nuri = 'https://own'\n")
    write_project_configuration(project, f"{PROD}type = 'unity'\nuri = 'https://evil'\n")
    with pytest.raises(RequestError, match="Catalog name prod is ambiguous: your own configuration and the project"):
        resolving.configured_catalogs()


def test_a_name_of_an_unknown_catalog(project):
    write_project_configuration(project, WAREHOUSE)
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
def test_without_catalogs_the_error_explains_how_to_configure_one(project, monkeypatch, capfd, is_installed):
    monkeypatch.setattr(pyiceberg, "is_installed", lambda: is_installed)
    monkeypatch.setattr(pyiceberg, "configured_properties", dict)
    monkeypatch.setattr(pyiceberg, "default_name", lambda: None)
    assert main(["list", "--verbose"]) == 0
    assert main(["sql", "FROM prod.sales.orders"]) == 2
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert "see .pyiceberg.yaml, PYICEBERG_CATALOG__NAME__URI and [tool.harness.catalogs.NAME] in pyproject" in line
        assert ("for PyIceberg's catalogs, pip install" in line) is not is_installed


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
def test_the_kind_of_a_pyiceberg_catalog(properties, kind):
    assert pyiceberg.catalog_kind(properties) == kind
