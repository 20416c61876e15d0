"""Writes and reads tables of the topics: CSV and Parquet for pandas, polars, DuckDB and whatever else reads
them.

May import: ``contract``. pyarrow is imported only where Parquet is written.
"""
