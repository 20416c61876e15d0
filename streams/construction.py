"""Tells whether an estimator can be built at all: within a bound on time and memory, tried in a process of
its own.

An expression of a few letters, such as ``ARFRegressor(n_models=100000000)``, may ask for more than a machine
has. In our own process there would be no way back from that.
"""

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

CPU_SECONDS, SECONDS = 5, 60
"""The bound holds on a busy machine, too: time that it computes, and time that passes."""
BYTES = 2 * 1024**3
_NO_MEMORY = 3


class TooLargeError(ValueError):
    """Says that building it takes more time or memory than a model may; says which."""


def check_construction(
    build: Callable[[], object], cpu_seconds: int = CPU_SECONDS, most_bytes: int = BYTES
) -> None:
    """Build it in a child process with these bounds. Raises ``TooLargeError``.

    What else is wrong with it, the caller meets when it builds it.
    """
    child = os.fork()
    if not child:  # it says by its status alone how it went, and runs nothing of the parent's
        status = 0
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process, whatever it is doing
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
            signal.alarm(SECONDS)
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
            _, hard = resource.getrlimit(resource.RLIMIT_AS)
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            bound = pages * os.sysconf("SC_PAGE_SIZE") + most_bytes
            limit = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
            resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
            build()
        except MemoryError:
            status = _NO_MEMORY
        except BaseException:  # noqa: BLE001 - the parent meets it when it builds the model itself
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGXCPU):
        raise TooLargeError(f"is not built within {cpu_seconds} s of CPU time: make it smaller")
    if os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == _NO_MEMORY:
        raise TooLargeError(
            f"takes more than {most_bytes / 1024**3:g} GiB of memory to build: make it smaller"
        )
