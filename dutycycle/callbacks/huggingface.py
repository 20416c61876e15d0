"""For the Trainer of Hugging Face's transformers::

from dutycycle.callbacks.huggingface import StepTimes
trainer = Trainer(..., callbacks=[StepTimes()])
"""

from typing import Any

from transformers import TrainerCallback

from dutycycle.callbacks.reporter import StepReporter


class StepTimes(TrainerCallback):  # type: ignore[misc]
    """Reports each step of the optimizer. Evaluation between two steps is in no step."""

    def __init__(self) -> None:
        self._reporter = StepReporter("huggingface")

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Describe the model and begin; called by the Trainer."""
        self._reporter.describe(kwargs.get("model"), batch_size=_samples(args, state))
        self._reporter.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Report a step; called by the Trainer."""
        scaler = getattr(kwargs.get("optimizer"), "scaler", None)
        self._reporter.step(samples=_samples(args, state), number=state.global_step, scaler=scaler)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin anew, so that an evaluation is no part of a step; called by the Trainer."""
        self._reporter.begin()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Send what was not sent yet; called by the Trainer."""
        self._reporter.flush()


def _samples(args: Any, state: Any) -> int | None:
    """Return the samples of one step on this rank; None where neither arguments nor state tell them."""
    # Of one process: with several GPUs (DataParallel) each of them has ``per_device_train_batch_size``. The
    # state has what ``auto_find_batch_size`` came to.
    batch = getattr(state, "train_batch_size", None) or args.train_batch_size
    accumulated = args.gradient_accumulation_steps
    return batch * accumulated if isinstance(batch, int) and isinstance(accumulated, int) else None
