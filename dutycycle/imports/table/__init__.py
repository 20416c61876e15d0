"""Reads tables: a heading, and rows below it; as CSV and as JSON."""
