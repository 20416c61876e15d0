"""Detects cycles: of many series at once, on several time scales. Pure. May import: ``columns``."""
