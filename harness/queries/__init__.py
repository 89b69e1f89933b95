"""One SQL text for both engines: which tables it reads, which conditions skip files, and what Spark calls the rest."""
