"""For Keras, whichever its backend::

from dutycycle.callbacks.keras import StepTimes
model.fit(..., callbacks=[StepTimes(batch_size=32)])
"""

import threading
from contextlib import suppress
from typing import Any

from dutycycle.callbacks.reporter import StepReporter

try:
    from keras.callbacks import Callback
except ModuleNotFoundError:  # TensorFlow before it left Keras to itself
    from tensorflow.keras.callbacks import Callback


class StepTimes(Callback):  # type: ignore[misc]
    """Reports each batch. Validation is in no step. Keras tells no callback the batch size.

    A step ends where the next one begins: a callback that wants the end of each batch would make Keras wait
    for the figures of each. Keras may call from several threads, and late.
    """

    def __init__(self, batch_size: int | None = None) -> None:
        super().__init__()
        self._batch_size = batch_size
        self._reporter = StepReporter("keras")
        self._lock = threading.Lock()
        self._described = False
        self._batch: int | None = None
        """The batch that runs, None between epochs."""
        self._steps = 0

    def __reduce__(self) -> tuple[type["StepTimes"], tuple[int | None]]:
        """Pickle or copy what it was made of, as wrappers do before they train: a lock cannot be."""
        return type(self), (self._batch_size,)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Begin at the first batch; called by Keras, with ``steps_per_execution`` once for several
        batches."""
        with self._lock:
            if self._batch is None:
                self._reporter.begin()
                self._batch = batch
            elif batch > self._batch:
                self._ended(batch)

    def on_test_begin(self, logs: Any = None) -> None:
        """End the epoch's steps; called by Keras, also before the validation of an epoch."""
        self._epoch_ended()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """End the epoch's steps; called by Keras."""
        self._epoch_ended()

    def on_train_end(self, logs: Any = None) -> None:
        """Send what was not sent yet; called by Keras."""
        self._epoch_ended()
        self._reporter.flush()

    def _epoch_ended(self) -> None:
        with self._lock:
            if self._batch is not None:
                self._ended(max((self.params or {}).get("steps") or 0, self._batch + 1))
                self._batch = None

    def _ended(self, next_batch: int) -> None:
        steps = next_batch - (self._batch or 0)
        self._batch = next_batch
        self._steps += steps
        if not self._described:  # before the first batch a model may have no parameters
            self._described = True
            dtype = getattr(getattr(self.model, "dtype_policy", None), "name", None)
            facts: dict[str, Any] = {"model": type(self.model).__name__, "dtype": dtype}
            with suppress(ValueError):  # a model that is not built
                facts["parameters"] = self.model.count_params()
            self._reporter.describe(**facts, batch_size=self._batch_size)
        samples = None if self._batch_size is None else steps * self._batch_size
        scale = getattr(getattr(self.model, "optimizer", None), "dynamic_scale", None)
        scaler = None if scale is None else lambda: scale
        self._reporter.step(steps=steps, samples=samples, number=self._steps, scaler=scaler)
