"""How long one waits: for ``dutycycle stream`` to read, and for the screens of ``dutycycle up``."""

import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
from itertools import chain

from bench.speed.bench import Bench
from bench.speed.cluster import GPU, HOST, Topics, ticks
from bench.speed.worker import ours, working
from tests.support.processes.commands import environ

_WAITING, _NODES = b"waiting for the first sample", b" %"
"""What the first screen says, and what a figure looks like."""
_WAIT_S = 60.0


def start(bench: Bench) -> None:
    """Both, without any state to read; what is compiled was compiled before."""
    _up()  # compiles what was never imported, as the first start of an installation does
    _stream(bench)
    for _ in range(bench.size.repeats):
        stream_s, cpu_s = _stream(bench)
        bench.add("start.stream_s", stream_s, "s from the start of the process to its first sample")
        bench.add("start.stream_cpu_s", cpu_s, "s of CPU until then")
        screen_s, figures_s = _up()
        bench.add("start.screen_s", screen_s, "s to the first screen of `up`")
        bench.add("start.figures_s", figures_s, "s to its first figures")


def _stream(bench: Bench) -> tuple[float, float]:
    topics = Topics(bench.broker)
    topics.create(1)
    topics.fill(chain.from_iterable(ticks(1, 5, (GPU, HOST))))
    with working(ours(), topics, bench.folder, bench.last) as worker:
        found = worker.wait(lambda: worker.taken() > 0, 0.05), worker.cpu_s()
    topics.delete()
    return found


def _up() -> tuple[float, float]:
    """Of ``dutycycle up`` on a terminal."""
    with tempfile.TemporaryDirectory() as folder:
        terminal, inside = pty.openpty()
        environment = environ(kubernetes="off", containers="pods") | {
            "XDG_STATE_HOME": folder, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"
        }  # fmt: skip
        began_s = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "dutycycle", "up"],
            env=environment,
            stdin=inside,
            stdout=inside,
            stderr=inside,
        )
        os.close(inside)
        try:
            first_s = _shown_s(terminal, _WAITING, began_s)
            return first_s, _shown_s(terminal, _NODES, began_s)
        finally:
            process.send_signal(signal.SIGTERM)
            _drain(terminal, process)
            os.close(terminal)


def _shown_s(terminal: int, text: bytes, began_s: float) -> float:
    shown = b""
    while text not in shown:
        if time.monotonic() - began_s > _WAIT_S or not select.select([terminal], [], [], _WAIT_S)[0]:
            raise RuntimeError(f"`dutycycle up` does not show {text!r}: {shown[-2000:]!r}")
        shown += os.read(terminal, 65536)
    return time.monotonic() - began_s


def _drain(terminal: int, process: subprocess.Popen[bytes]) -> None:
    """Read until it has ended: nobody can write to a terminal that is full."""
    while process.poll() is None:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                os.read(terminal, 65536)
            except OSError:  # the other side is closed
                process.wait(60)
