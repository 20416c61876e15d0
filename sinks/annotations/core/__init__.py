"""Decides which annotations an object should carry, and when they are written. Pure: no clock, no I/O."""
