"""DuckDB as an engine: a plan becomes one SQL query. Read `engine` first, then `lowering`."""
