"""For PyTorch Lightning::

from dutycycle.callbacks.lightning import StepTimes
trainer = Trainer(callbacks=[StepTimes()])
"""

from typing import Any

from dutycycle.callbacks.reporter import StepReporter, samples_in

try:
    from lightning.pytorch import Callback
except ModuleNotFoundError:  # the older name of the same package
    from pytorch_lightning import Callback


class StepTimes(Callback):  # type: ignore[misc]
    """Reports each batch. Validation between two batches is in no step."""

    def __init__(self) -> None:
        self._reporter = StepReporter("lightning")

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Describe the model and begin; called by Lightning."""
        precision = getattr(trainer, "precision", None)
        self._reporter.describe(pl_module, **({"dtype": str(precision)} if precision else {}))
        self._reporter.begin()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Report a step; called by Lightning."""
        samples = samples_in(batch)
        self._reporter.describe(batch_size=samples)
        plugin = getattr(trainer, "precision_plugin", None)
        self._reporter.step(
            samples=samples, number=trainer.global_step, scaler=getattr(plugin, "scaler", None)
        )

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Begin anew, so that a validation is no part of a step; called by Lightning."""
        self._reporter.begin()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Send what was not sent yet; called by Lightning."""
        self._reporter.flush()
