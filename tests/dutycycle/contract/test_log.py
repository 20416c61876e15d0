"""Keys of records: text, and the same bytes again where they are none."""

import pytest

from dutycycle.contract.log import ConsumerRecord, key_bytes, key_text

KEYS = {
    "none": (None, None, False),
    "empty": (b"", "", False),
    "ASCII": (b"node-a", "node-a", True),
    "UTF-8": ("nœud-é".encode(), "nœud-é", True),
    "no UTF-8": (b"a\xff", "a\udcff", False),
}


@pytest.mark.parametrize(("raw", "text", "good"), KEYS.values(), ids=KEYS.keys())
def test_a_key_is_text_and_keeps_its_bytes(raw: bytes | None, text: str | None, good: bool) -> None:
    assert key_text(raw) == text
    assert key_bytes(text) == raw
    assert ConsumerRecord("pods", 0, 0, text, b"", 0).has_text_key is good
