"""For a loop of one's own over batches::

from dutycycle.callbacks.pytorch import steps
for batch in steps(loader, model=model): ...
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from dutycycle.callbacks.reporter import StepReporter, samples_in

_Batch = TypeVar("_Batch")


def steps(
    batches: Iterable[_Batch], *, model: object = None, scaler: object = None, batch_size: int | None = None
) -> Iterator[_Batch]:
    """Yield the same batches. A step is a pass through the loop, with the wait for its batch.

    ``scaler``: the GradScaler, if there is one. ``batch_size``: where the batches do not tell it.
    """
    reporter = StepReporter("pytorch")
    size = getattr(batches, "batch_size", None)
    known = size if isinstance(size, int) and size > 0 else None
    reporter.describe(model, batch_size=batch_size or known)
    reporter.begin()
    try:
        for batch in batches:
            yield batch
            reporter.step(samples=batch_size or samples_in(batch), scaler=scaler)
    finally:
        reporter.close()
