"""Computes trends: level, slope, forecasts, and when memory runs out. Pure. May import: ``cycles``,
``columns``."""
