"""Defines what the database holds: types of columns, tables, and the views that people read."""
