"""Buckets of the servers, and uploads to them."""

import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

BUCKET = "lake"
# The account that azurite accepts, from its documentation.
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def upload_to_google(endpoint: str, directory: Path, prefix: str) -> None:
    """Upload like `upload`, with the JSON interface, which is the only one that the test server supports."""
    for file in sorted(path for path in directory.rglob("*") if path.is_file()):
        name = urllib.parse.quote(f"{prefix}/{file.relative_to(directory).as_posix()}", safe="")
        url = f"{endpoint}/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={name}"
        with urllib.request.urlopen(urllib.request.Request(url, file.read_bytes(), method="POST")):
            pass


def s3_store(options: dict[str, Any]) -> Any:
    """Return the bucket of the S3 server, for uploads."""
    from obstore.store import S3Store

    return S3Store(
        BUCKET,
        endpoint=options["endpoint_url"],
        access_key_id="k",
        secret_access_key="s",
        region="us-east-1",
        client_options={"allow_http": True},
    )


def upload(store: Any, directory: Path, prefix: str) -> None:
    """Upload all files of a directory below a prefix of a bucket."""
    import obstore

    for file in sorted(path for path in directory.rglob("*") if path.is_file()):
        obstore.put(store, f"{prefix}/{file.relative_to(directory).as_posix()}", file.read_bytes())
