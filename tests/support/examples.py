"""How many examples a property is tried on."""

from hypothesis import settings

_USUAL = 100
"""Hypothesis' own number, which the profile ``full`` has."""


def examples(usual: int) -> int:
    """So many in a full run, for a property that wants more or fewer than others; in others in proportion."""
    return max(1, usual * settings().max_examples // _USUAL)
