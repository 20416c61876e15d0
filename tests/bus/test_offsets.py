"""What an offset says about the ones before it."""

from bus.faust.offsets import OffsetKind, OffsetTracker


def test_offsets_are_classified() -> None:
    tracker = OffsetTracker(5)
    cases = [(4, OffsetKind.REPEAT), (6, OffsetKind.AFTER_GAP), (5, OffsetKind.NEXT)]
    assert [tracker.classify(offset) for offset, _ in cases] == [seen for _, seen in cases]
    tracker.took(8)
    assert tracker.classify(8) is OffsetKind.REPEAT
    assert tracker.classify(9) is OffsetKind.NEXT
