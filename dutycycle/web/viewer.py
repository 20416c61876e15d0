"""Who looks at a page, and whose names he may read."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Viewer:
    """Names somebody as he is known, with "" where nobody is asked. ``namespaces``: those whose pods he may
    see, None for all."""

    name: str = ""
    namespaces: frozenset[str] | None = None


EVERYBODY = Viewer()
"""Who asks where nobody is asked who he is."""
