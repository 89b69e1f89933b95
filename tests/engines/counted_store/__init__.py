"""A file system for Spark that counts what it is asked, as a store of objects would be: see `java`."""
