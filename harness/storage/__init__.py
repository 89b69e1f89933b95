"""Access to a table's files: local disk, object stores, and every file system that fsspec supports.

Start with `stores`: all reads go through `Storage`, which only opens files below the table's allowed `roots`. `gate`
checks and opens local files. `clients` talks to remote stores; `object_client` serves S3, Azure, and Google Cloud with
the options in `object_options`. `decoded` caches decoded metadata.
"""
