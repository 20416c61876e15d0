"""A log that is shorter than what was read of it: created again after a deletion, or restored from a copy.

Its records count from lower offsets than what is known of it: they would all be taken for read, and lost
without a word.
"""


def shorter(topic: str, partition: int, read: int, end: int) -> str:
    """What happened, in words: it was read up to ``read``, and the next record will be at ``end``."""
    return (
        f"{topic}-{partition} ends at offset {end}, but was read to {read}: "
        "the topic was deleted and created again, or its broker has lost records"
    )
