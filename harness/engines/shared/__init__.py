"""What engines share before and after they read rows: files, footers, groups of files, keys, names, SQL text."""
