"""A package that does not import harness: the job of the page about Spark jobs under test."""
