"""Sends the steps of a training loop to the node's collector, a datagram at most twice a second.

A step costs a sum or two. Nothing here waits, and nothing raises: a training must not depend on who looks at
it.
"""

import atexit
import json
import logging
import math
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

_LOG = logging.getLogger(__name__)
SOCKET = "DUTYCYCLE_SOCKET"
"""The environment variable with the socket's path."""
DEFAULT_PATH = "/run/dutycycle/steps.sock"
EVERY_S = 0.5
SCALE_EVERY_S = 10.0
"""To read the loss scale waits for the GPU, so it is read seldom."""
_MOST_LETTERS = 200
_WRAPPERS = {
    "DataParallel": "module", "DistributedDataParallel": "module", "FullyShardedDataParallel": "module",
    "DeepSpeedEngine": "module", "OptimizedModule": "_orig_mod",
}  # fmt: skip
"""Around a model, by class: what they call it."""
_PICTURE_RANK = 3
_CHANNELS = frozenset({1, 3, 4})
"""Of pictures: grey, red with green and blue, and these with transparency."""


class StepReporter:
    """Sums up steps and sends them. ``loop``: what kind of loop it is, such as pytorch.

    What could not be sent stays in the sums for the next time: while no collector listens nothing is lost but
    at the very end. ``unsent`` counts the datagrams that could not be.
    """

    def __init__(
        self, loop: str, path: str | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.unsent = 0
        self._path = path or os.environ.get(SOCKET) or DEFAULT_PATH
        self._clock = clock
        self._facts: dict[str, Any] = {"v": 1, "loop": loop}
        self._socket: socket.socket | None = None
        self._sent_s = self._scaled_s = -math.inf
        self._begun_s = clock()
        self._own()

    def _own(self) -> None:
        """Count from nothing, as this process."""
        self._pid = os.getpid()
        self._steps, self._seconds, self._longest_s = 0, 0.0, 0.0
        self._samples: int | None = None
        atexit.register(self.flush)

    def __reduce__(self) -> tuple[type["StepReporter"], tuple[str, str]]:
        """Pickle what it was made of: a launcher makes a callback here, and trains in another process."""
        return type(self), (self._facts["loop"], self._path)

    def describe(self, of_torch: Any = None, **facts: Any) -> None:
        """Say what is trained: class, parameters, dtype of a model of PyTorch, or each by itself."""
        description: dict[str, Any] = {}
        if of_torch is not None:  # its class, its parameters on this rank, and their type
            inner: Any = of_torch
            try:
                while (kind := type(inner).__name__) in _WRAPPERS:
                    inner = getattr(inner, _WRAPPERS[kind])
                description["model"] = kind
                parameters = list(of_torch.parameters())
                description["parameters"] = sum(parameter.numel() for parameter in parameters)
                description["dtype"] = str(parameters[0].dtype).removeprefix("torch.")
            except Exception as error:  # noqa: BLE001 - any model is welcome, and trained without this
                _LOG.debug("of the model only this is known: %s: %r", description, error)
        description |= facts
        for name, value in description.items():
            if isinstance(value, str):
                printable = "".join(letter if letter.isprintable() else "?" for letter in value)
                value = printable[:_MOST_LETTERS] or "?"
            if value is not None:
                self._facts[name] = value

    def begin(self) -> None:
        """Begin a step now. Without this it begins where the one before ended. A forked child that trains
        itself tells its own steps from here on."""
        if os.getpid() != self._pid:
            self._own()
        self._begun_s = self._clock()

    def step(
        self, *, steps: int = 1, samples: int | None = None, number: int | None = None, scaler: Any = None
    ) -> None:
        """Report that a step has ended, or several. ``scaler``: a GradScaler, or a function that gives the
        scale."""
        now_s = self._clock()
        seconds, self._begun_s = now_s - self._begun_s, now_s
        self._steps += steps
        self._seconds += seconds
        self._longest_s = max(self._longest_s, seconds / max(steps, 1))
        if samples is not None:
            self._samples = (self._samples or 0) + samples
        if number is not None:
            self._facts["step"] = number
        if now_s - self._sent_s >= EVERY_S:
            if scaler is not None and now_s - self._scaled_s >= SCALE_EVERY_S:
                self._scaled_s = now_s
                try:
                    scale = float(scaler() if not hasattr(scaler, "get_scale") else scaler.get_scale())
                except Exception as error:  # noqa: BLE001 - any scaler is welcome, too
                    _LOG.debug("the loss scale is not known: %r", error)
                else:
                    self._facts |= {"loss_scale": scale} if 0 <= scale < math.inf else {}
            self._sent_s = now_s
            self.flush()

    def close(self) -> None:
        """Send what was not sent yet, for the last time: the loop has ended."""
        self.flush()
        atexit.unregister(self.flush)
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def flush(self) -> None:
        """Send what was not sent yet."""
        if not self._steps or os.getpid() != self._pid:  # a forked child would tell its parent's steps again
            return
        sums = {"steps": self._steps, "seconds": self._seconds, "longest_s": self._longest_s}
        report = {**self._facts, **sums}
        if self._samples is not None:
            report["samples"] = self._samples
        if self.unsent:
            report["unsent"] = self.unsent
        # Numbers of NumPy, as a search for a batch size gives them, are no numbers for JSON.
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            # By the path each time: a collector that was started again has a new socket there.
            self._socket.sendto(json.dumps(report, default=int).encode(), self._path)
        except OSError:  # nobody listens, or not fast enough: that is no concern of the training
            self.unsent += 1
        else:
            self._steps, self._seconds, self._longest_s, self._samples = 0, 0.0, 0.0, None


def samples_in(batch: object) -> int | None:
    """Return the length of a batch: of its first tensor, in whatever it is packed.

    None where that may be the size of one sample, as in a list of pictures of C x H x W.
    """
    try:
        for depth in range(4):
            if (shape := getattr(batch, "shape", None)) is not None:
                return int(shape[0])
            if hasattr(batch, "values"):
                batch = next(iter(batch.values()))
                continue
            is_pair = depth == 0 and isinstance(batch, tuple) and len(batch) == 2  # inputs and targets
            if not is_pair and _may_be_samples(batch):
                return None
            batch = batch[0]  # type: ignore[index]
    except Exception as error:  # noqa: BLE001 - a batch may be anything; the training goes on without this
        _LOG.debug("the size of a batch is not known: %r", error)
    return None


def _may_be_samples(parts: Any) -> bool:
    """Tell whether tensors, or mappings that begin with one, are perhaps a sample each: all are of one rank,
    and have no length in common, or one that is a number of channels."""
    ranks, lengths = set(), set()
    for part in parts:
        tensor = next(iter(part.values()), None) if isinstance(part, Mapping) else part
        shape = getattr(tensor, "shape", None)
        if shape is None:
            return False
        ranks.add(len(shape))
        lengths.add(int(shape[0]))
    return len(ranks) == 1 and (len(lengths) > 1 or (ranks == {_PICTURE_RANK} and lengths <= _CHANNELS))
