"""Tells where a process stands: whether it is alive, and whether it does its work.

Not ready is no failure: a process that waits for its broker is alive. Not alive is one that will not come
back by itself and has to be started anew.
"""

from collections.abc import Callable

Probe = Callable[[], str | None]
"""Says what is wrong, or None. Called from any thread, so it waits for nothing and changes nothing."""


class Status:
    """Asks the probes of one process, each under the name of what it looks at."""

    def __init__(self) -> None:
        self.waiting: str | None = "starting"
        """What it waits for before it can begin; None once it has begun."""
        self.remark: Callable[[], str] = lambda: ""
        """What is worth knowing of a process that is ready: its records go to the disk; or ""."""
        self.hangs = False
        """Whether it ends, but for a thread: to close the event loop below that ends in a traceback."""
        self.alive: dict[str, Probe] = {}
        self.ready: dict[str, Probe] = {}

    def liveness_error(self) -> str | None:
        """Tell why the process has to be started anew; None while it is alive."""
        return _errors(self.alive)

    def readiness_error(self) -> str | None:
        """Tell why it does not do its work now; None when it does."""
        return self.liveness_error() or self.waiting or _errors(self.ready)


def _errors(probes: dict[str, Probe]) -> str | None:
    errors = []
    for name, probe in list(probes.items()):
        try:
            wrong = probe()
        except Exception as error:  # noqa: BLE001 - it looks into what other threads change
            wrong = f"cannot be checked: {type(error).__name__}: {error}"
        if wrong is not None:
            errors.append(f"{name}: {wrong}")
    return "; ".join(errors) or None
