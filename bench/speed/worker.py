"""The processes that are measured: ours and the peers', pinned to cores, and what they cost."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.speed.cluster import GPU, HOST, PARTITIONS, Topics
from tests.support.processes.commands import environ
from tests.support.processes.figures import Figures, Process
from tests.support.servers.cache import cache_folder, locked

PEERS = Path(__file__).parents[1] / "peers"
WAIT_S = 900.0
STOPPED_S = 30
"""A worker may be stopped for so long while its backlog is written, and keeps its partitions."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IDLE = 0.08
"""A worker that uses less of a core, and sends nothing, has nothing to do."""


@dataclass(frozen=True)
class Contender:
    """A program that reads samples and writes windows."""

    name: str
    command: Callable[[Path], list[str]]
    """What to run, given a folder for its state."""
    environment: Callable[[Topics], dict[str, str]]
    each: int
    """At least so many records for a window of a node."""


def ours(snapshot_interval: str = "30s", session_timeout: int = STOPPED_S) -> Contender:
    """``dutycycle stream`` as it is."""

    def environment(topics: Topics) -> dict[str, str]:
        return environ(
            broker=topics.broker.url, topic_prefix=topics.prefix, partitions=str(PARTITIONS),
            snapshot_interval=snapshot_interval, session_timeout=f"{session_timeout}s",
        )  # fmt: skip

    return Contender("Dutycycle", lambda _: [sys.executable, "-m", "dutycycle", "stream"], environment, 8)


def peer(name: str, title: str) -> Contender:
    """A peer, by its folder in ``bench/peers``, in its own environment."""
    folder = PEERS / name
    python = str(_environment_of(folder) / "bin" / "python")

    def command(state: Path) -> list[str]:
        if name == "bytewax":
            return [python, "-m", "bytewax.run", "windows:flow"]
        if name == "faust":
            return [python, str(folder / "windows.py"), str(state), "worker"]
        return [python, str(folder / "windows.py"), str(state)]

    def environment(topics: Topics) -> dict[str, str]:
        return os.environ | {
            "PYTHONPATH": f"{folder}:{PEERS}", "BROKER": topics.broker.bootstrap, "SOURCE": topics.name(GPU),
            "SINK": topics.name("window-aggregates"), "GROUP": topics.prefix.rstrip("."),
            "PARTITIONS": str(PARTITIONS),
        }  # fmt: skip

    return Contender(title, command, environment, 1)


def _environment_of(folder: Path) -> Path:
    """Its virtual environment in the cache, made anew when its requirements have changed."""
    wanted = (folder / "requirements.txt").read_text()
    made = cache_folder() / f"peer-{folder.name}"
    installed = made / "installed.txt"
    with locked(made.name):
        if not installed.exists() or installed.read_text() != wanted:
            print(f"installing {folder.name}", flush=True)
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(made)], check=True)
            pip = [str(made / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "--requirement", str(folder / "requirements.txt")], check=True)
            installed.write_text(wanted)
    return made


@dataclass
class Worker:
    """A running process."""

    process: subprocess.Popen[bytes]
    log: Path
    began_s: float = field(default_factory=time.monotonic)

    def cpu_s(self) -> float:
        """CPU time of all threads since the start, user and system."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def memory_mb(self, name: str = "VmRSS") -> float:
        """Resident memory, or the most that it ever was: ``VmHWM``."""
        status = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in status if line.startswith(name)) / 1024

    def figures(self) -> Figures:
        """What ``dutycycle stream`` says of itself; a peer has none."""
        return Process(self.log).figures()

    def wait(self, is_so: Callable[[], bool], pause_s: float = 0.1) -> float:
        """Look until it is so; seconds since the start of the process."""
        end_s = time.monotonic() + WAIT_S
        while not is_so():
            if self.process.poll() is not None or time.monotonic() > end_s:
                raise RuntimeError(f"the worker ended, or took too long: {self.log.read_text()[-3000:]}")
            time.sleep(pause_s)
        return time.monotonic() - self.began_s

    def taken(self) -> float:
        """Samples that ``dutycycle stream`` has read."""
        found = self.figures()
        return sum(found.get(f'records_taken_total{{topic="{topic}"}}', 0.0) for topic in (GPU, HOST))


def total(figures: Figures, name: str) -> float:
    """A figure over all its labels."""
    return sum(value for one, value in figures.items() if one.split("{")[0] == name)


@contextmanager
def working(
    contender: Contender, topics: Topics, folder: Path, cores: set[int], end: signal.Signals = signal.SIGTERM
) -> Iterator[Worker]:
    """A worker on these cores, ended by ``end``."""
    state = folder / topics.prefix / str(time.monotonic_ns())
    state.mkdir(parents=True)
    log = state / "log"
    command = ["taskset", "--cpu-list", ",".join(map(str, sorted(cores))), *contender.command(state)]
    with log.open("wb") as out:
        environment = contender.environment(topics)
        process = subprocess.Popen(command, env=environment, cwd=state, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield Worker(process, log)
    finally:
        process.send_signal(end)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def all_working(
    contender: Contender, topics: Topics, folder: Path, cores: list[set[int]]
) -> Iterator[list[Worker]]:
    """A worker for each set of cores."""
    with ExitStack() as stack:
        yield [stack.enter_context(working(contender, topics, folder, one)) for one in cores]


def cpu_until_idle(workers: list[Worker], sent: Callable[[], int], least: int) -> float:
    """CPU until the workers had nothing to do, when so many results were sent and no more come.

    What they use while they wait is not counted when it is below ``_IDLE``. Open: Bytewax polls, and closes
    its last windows by the clock; on a busy machine up to half of its figure was that waiting.
    """
    quiet_s: list[float] = []

    def idle() -> bool:
        before_s, before = sum(one.cpu_s() for one in workers), sent()
        time.sleep(2)
        used_s = sum(one.cpu_s() for one in workers) - before_s
        if used_s >= 2 * _IDLE * len(workers):
            quiet_s.clear()
            return False
        quiet_s.append(before_s)
        return least <= sent() == before

    workers[0].wait(idle, 0)
    return quiet_s[0]
