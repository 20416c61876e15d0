"""The records sink: peaks of pods and jobs in SQL. The only importer of SQLAlchemy."""
