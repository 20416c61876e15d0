"""Values in the words of the API."""

import pytest

from sinks.adapter.answers import quantity


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (97, "97"), (49.5, "49500m"), (0.0004, "0"), (33.3333, "33333m"), (-0.5, "-500m"),
        (98_784_247_808.0, "98784247808"),
    ],
)  # fmt: skip
def test_a_quantity_has_three_digits_behind_the_point(value: float, text: str) -> None:
    assert quantity(value) == text
