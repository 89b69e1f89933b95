"""Shared catalog servers, and catalogs that are configured as a user would configure them."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import serving


@pytest.fixture(scope="session")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Iceberg's REST catalog, with tables on the local disk."""
    folder = tmp_path_factory.mktemp("rest")
    with serving.rest_catalog(folder, f"file://{folder}/warehouse") as uri:
        yield uri


@pytest.fixture(scope="session")
def aws() -> Iterator[str]:
    """A server with S3 and Glue, and the bucket `lake`."""
    boto3 = pytest.importorskip("boto3", reason="S3 and Glue need boto3")
    with serving.aws() as url:
        keys = {"aws_access_key_id": serving.KEY, "aws_secret_access_key": serving.SECRET}
        boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys).create_bucket(Bucket="lake")
        yield url


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, Mapping[str, Any]], None]:
    """A function that configures a catalog by environment variables, in a directory without other configurations."""
    for name in [name for name in os.environ if name.startswith(("PYICEBERG_", "AWS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.chdir(tmp_path)

    def put(name: str, properties: Mapping[str, Any]) -> None:
        for key, value in properties.items():
            words = key.upper().replace(".", "__").replace("-", "_")
            monkeypatch.setenv(f"PYICEBERG_CATALOG__{name.upper()}__{words}", str(value))

    return put


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--histories", type=int, default=100, help="how many histories are drawn")
    parser.addoption("--seed", type=int, default=1, help="of the drawing")
    parser.addoption("--store", choices=("local", "s3"), default="local", help="where the drawn tables are")
