"""The names of object store options in other libraries, by their canonical name, for each service.

A canonical name is `object_store`'s name without its prefix. The aliases are, in lower case: `object_store`'s names
with prefix (used by deltalake, Polars, and environment variables), and the names in PyIceberg, fsspec (s3fs, adlfs,
gcsfs), DuckDB's secrets, and Hadoop.
"""

from __future__ import annotations

import enum


class StoreKind(enum.Enum):
    """The object store services that are supported."""

    S3 = "S3"
    AZURE = "Azure"
    GCS = "Google Cloud Storage"


CONNECTION: dict[str, tuple[str, ...]] = {
    "timeout": ("request_timeout", "s3.request-timeout", "config_kwargs.read_timeout"),
    "connect_timeout": ("s3.connect-timeout", "config_kwargs.connect_timeout"),
    "proxy_url": ("s3.proxy-uri", "gcs.proxy-uri"),
    "max_retries": ("config_kwargs.retries.max_attempts", "fs.s3a.attempts.maximum"),
    "allow_http": (
        "aws_allow_http", "use_ssl", "fs.s3a.connection.ssl.enabled", "azure_allow_http", "google_allow_http",
    ),
    "verify": ("allow_invalid_certificates", "client_kwargs.verify"),
    "anonymous": (
        "anon", "skip_signature", "aws_skip_signature", "s3.anonymous", "azure_skip_signature", "gcs.anonymous",
        "google_skip_signature", "fs.s3a.aws.credentials.provider",
    ),
}  # fmt: skip
"""Options that all services have."""
NAMES: dict[StoreKind, dict[str, tuple[str, ...]]] = {
    StoreKind.S3: {
        "access_key_id": (
            "aws_access_key_id", "s3.access-key-id", "client.access-key-id", "key", "key_id", "fs.s3a.access.key",
        ),
        "secret_access_key": (
            "aws_secret_access_key", "s3.secret-access-key", "client.secret-access-key", "secret", "fs.s3a.secret.key",
        ),
        "session_token": (
            "aws_session_token", "aws_token", "s3.session-token", "client.session-token", "token",
            "fs.s3a.session.token",
        ),
        "region": (
            "aws_region", "aws_default_region", "s3.region", "client.region", "default_region", "region_name",
            "client_kwargs.region_name", "fs.s3a.endpoint.region",
        ),
        "endpoint": (
            "aws_endpoint_url", "aws_endpoint_url_s3", "aws_endpoint", "s3.endpoint", "endpoint_url",
            "client_kwargs.endpoint_url", "fs.s3a.endpoint",
        ),
        "profile": ("aws_profile", "s3.profile-name", "client.profile-name", "profile_name"),
        "role_arn": ("aws_role_arn", "s3.role-arn", "client.role-arn"),
        "web_identity_token_file": ("aws_web_identity_token_file",),
        "path_style": (
            "virtual_hosted_style_request", "aws_virtual_hosted_style_request", "s3.force-virtual-addressing",
            "url_style",
            "config_kwargs.s3.addressing_style", "fs.s3a.path.style.access", "s3.path-style-access",
        ),
        "requester_pays": ("request_payer", "aws_request_payer"),
        **CONNECTION,
    },
    StoreKind.AZURE: {
        "account_name": ("azure_storage_account_name", "azure_account_name", "adls.account-name", "storage_account"),
        "account_key": (
            "azure_storage_account_key", "azure_storage_access_key", "azure_access_key", "access_key",
            "adls.account-key",
        ),
        "sas_token": ("azure_storage_sas_token", "azure_storage_sas_key", "sas_key", "adls.sas-token"),
        "connection_string": ("azure_storage_connection_string", "adls.connection-string"),
        "tenant_id": ("azure_tenant_id", "azure_storage_tenant_id", "adls.tenant-id", "authority_id"),
        "client_id": ("azure_client_id", "azure_storage_client_id", "adls.client-id"),
        "client_secret": ("azure_client_secret", "azure_storage_client_secret", "adls.client-secret"),
        "token": ("azure_storage_token", "bearer_token", "adls.token"),
        "endpoint": (
            "azure_endpoint", "azure_storage_endpoint", "adls.blob-storage-endpoint", "account_host", "endpoint_url",
        ),
        **CONNECTION,
    },
    StoreKind.GCS: {
        "service_account_path": (
            "service_account", "google_service_account", "google_service_account_path",
            "google_application_credentials",
            "application_credentials", "gcs.service-account", "fs.gs.auth.service.account.json.keyfile",
        ),
        "service_account_key": ("google_service_account_key",),
        "token": ("bearer_token", "gcs.oauth2.token"),
        "endpoint": ("endpoint_url", "base_url", "google_base_url", "gcs.service.host", "fs.gs.storage.root.url"),
        "project": ("gcs.project-id", "google_project_id", "fs.gs.project.id"),
        **CONNECTION,
    },
}  # fmt: skip
"""Aliases by canonical name, for each service."""
NEGATED = {
    "allow_http": frozenset({"use_ssl", "fs.s3a.connection.ssl.enabled"}),
    "verify": frozenset({"allow_invalid_certificates"}),
    "path_style": frozenset(
        {"virtual_hosted_style_request", "aws_virtual_hosted_style_request", "s3.force-virtual-addressing"}
    ),
}
"""Aliases that mean the opposite of their canonical name."""
CLIENT = ("timeout", "connect_timeout", "proxy_url")
"""Connection options that are passed on unchanged. Plain numbers are seconds."""
CREDENTIALS = frozenset(
    {
        *("access_key_id", "secret_access_key", "session_token", "profile", "role_arn", "web_identity_token_file"),
        *("account_key", "sas_token", "connection_string", "client_id", "client_secret", "tenant_id", "token"),
        *("service_account_path", "service_account_key", "anonymous"),
    }
)
"""Options that identify the user."""
PLACES = frozenset({"endpoint", "proxy_url", "verify", "connection_string", "allow_http", "role_arn"})
"""Options that decide where requests go or who can read them."""
IGNORED = frozenset(
    {
        *("type", "provider", "scope", "s3.signer", "py-io-impl", "io-impl", "use_listings_cache", "asynchronous"),
        *("skip_instance_cache", "default_block_size", "default_cache_type", "default_fill_cache", "cache_regions"),
        *("fs.s3a.impl", "aws_s3_allow_unsafe_rename", "aws_s3_locking_provider", "conditional_put"),
        *("aws_conditional_put", "fs.gs.impl", "fs.azure.account.auth.type", "gcs.default-location"),
    }
)
"""Options that do not matter for reading."""
