"""Bytes by location. Read `stores` first: `Storage` reads every file, each only where its table's `roots` allow.

`gate` opens local files, `clients` asks remote stores, of which `object_client` serves S3, Azure and Google Cloud with
the options of `object_options`. `decoded` remembers metadata that was decoded.
"""
