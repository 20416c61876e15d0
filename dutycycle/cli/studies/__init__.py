"""Holds commands on what was recorded or run: traces, reports, profiles, comparisons."""
