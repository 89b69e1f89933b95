"""Which client reads a store, and what is said where it is not installed."""

import sys

import pytest

import harness
from harness.storage.stores import Storage


@pytest.mark.parametrize(
    ("location", "service", "extra"),
    [
        ("s3://b/t", "S3", "s3"),
        ("s3a://b/t", "S3", "s3"),
        ("abfss://c@a.dfs.core.windows.net/t", "Azure", "azure"),
        ("gs://b/t", "Google Cloud Storage", "gcs"),
    ],
)
def test_a_store_without_its_client(monkeypatch: pytest.MonkeyPatch, location: str, service: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    options = {"max_retries": 4}  # of no other test, whose client would be known
    with pytest.raises(harness.RequestError) as caught:
        Storage(options).read(f"{location}/f")
    assert caught.value.message == (
        f"Cannot open {service}: obstore is not installed; pip install 'lakeharness[{extra}]'"
    )
    assert caught.value.file == f"{location}/f"
