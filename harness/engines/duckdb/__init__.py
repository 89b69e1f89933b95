"""The DuckDB engine, which turns a plan into one SQL query. Start with `engine`, then read `lowering`."""
