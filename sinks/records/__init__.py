"""Keeps peaks of pods and jobs in SQL: the records sink. The only importer of SQLAlchemy."""
