"""Numbers as a reader likes them."""


def tidy(value: float) -> float:
    """The same number, as an integer where it is one: ``97`` reads better than ``97.0``."""
    return int(value) if value.is_integer() else value
