"""Data files as they are on disk: the physical schema of each format, and rows where no engine reads the format itself.

- parquet   physical schema from a footer's schema elements; engines read the rows
- avro      physical schema and rows
- orc       physical schema and rows
- variant   Parquet variant values, plain and shredded, as JSON text
"""
