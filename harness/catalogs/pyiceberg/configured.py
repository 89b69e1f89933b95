"""Catalogs by the names that PyIceberg's configuration gives them: `.pyiceberg.yaml` and `PYICEBERG_CATALOG__…`."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import Any

from harness.catalogs.pyiceberg.adapter import PyIcebergCatalog
from harness.catalogs.pyiceberg.failures import asking, setting
from harness.errors import RequestError, StorageError

ADVICE = "pip install 'lakeharness[catalog]'"
_FINDING = "harness.catalogs.pyiceberg.finding.Finding"
_SQLITE = "sqlite:///"
_BY_ADDRESS = {"http": "rest", "thrift": "hive", "sqlite": "sql", "postgresql": "sql"}
"""How PyIceberg 0.12 takes a catalog whose type is not said, by what its address begins with."""


def is_installed() -> bool:
    """Whether PyIceberg is there."""
    return importlib.util.find_spec("pyiceberg") is not None


def configured() -> dict[str, Mapping[str, Any]]:
    """The properties of each catalog that is configured now, by its name.

    Raises:
        RequestError: PyIceberg is missing, or what is configured cannot be read.
    """
    if not is_installed():
        raise RequestError(f"Catalogs need PyIceberg: {ADVICE}", cause="CatalogClientMissing")
    from pyiceberg.utils.config import Config

    try:
        config = Config()
        return {name: config.get_catalog_config(name) or {} for name in config.get_known_catalogs()}
    except Exception as error:  # of the YAML parser, or a value where there is none to be
        said = " ".join(str(error).split())[:200]
        raise RequestError(
            f"Cannot read PyIceberg's configuration ({said}); see .pyiceberg.yaml and PYICEBERG_CATALOG__…",
            cause="CatalogMisconfigured",
        ) from error


def kind(properties: Mapping[str, Any]) -> str | None:
    """What a catalog is: `rest`, `glue`, …; None: it is a class of the user's, or its address says nothing."""
    if "py-catalog-impl" in properties:
        return None
    said, uri = properties.get("type"), str(properties.get("uri", ""))
    if isinstance(said, str):
        return said.lower()
    return next((kind for front, kind in _BY_ADDRESS.items() if uri.startswith(front)), None)


def default_name() -> str | None:
    """The catalog for names that say none, as configured; None: nothing is."""
    from pyiceberg.utils.config import Config

    name = Config().config.get("default-catalog")
    return name if isinstance(name, str) else None


def open_configured(name: str, properties: Mapping[str, Any]) -> PyIcebergCatalog:
    """The catalog of that name.

    Raises:
        RequestError: it is configured wrongly, or a package is missing.
        StorageError: it does not answer.
    """
    from pyiceberg.catalog import load_catalog

    uri = properties.get("uri")
    if isinstance(uri, str) and uri.startswith(_SQLITE):
        _check_file(name, uri)
    # Asked and never written: a SQL catalog that has no tables yet does not get them, and metadata is not read here.
    own = {**properties, "init_catalog_tables": "false", "py-io-impl": _FINDING}
    with asking(name, uri if isinstance(uri, str) else None, "opening"):
        return PyIcebergCatalog(name, load_catalog(name, **own), properties)


def _check_file(name: str, uri: str) -> None:
    """SQLite would make the file that is not there."""
    path = uri.removeprefix(_SQLITE).partition("?")[0]
    if path not in ("", ":memory:") and not path.startswith("file:") and not os.path.exists(path):
        raise StorageError(
            f"Cannot reach catalog {name}: there is no file {path}; is {setting(name, 'uri')} right?",
            cause="CatalogDown",
        )
