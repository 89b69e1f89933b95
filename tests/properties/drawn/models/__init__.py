"""Models that compute the rows of a table from its history, without reading the table."""
