"""The processes that are measured: ours and the peers', pinned to cores, and what they cost."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.peers.fold import METRICS
from bench.speed import truth
from bench.speed.cluster import GPU, HOST, PARTITIONS, Topics, windows_of
from bench.speed.truth import WrongResultsError
from dutycycle.contract.settings.load import load
from streams.app import app_id
from tests.support.processes.commands import environ
from tests.support.processes.figures import Figures, Process
from tests.support.servers.cache import cache_folder, locked

SAME_WORK = "Dutycycle, windows alone"
"""With the work of a peer."""
WORK_OF_A_PEER = {"analyses": "windows", "windows": "10s", "windows_metrics": ",".join(METRICS)}
"""The settings for that: windows of the same length and metrics."""
PEERS = Path(__file__).parents[1] / "peers"
WAIT_S = 900.0
STOPPED_S = 30
"""A worker may be stopped for so long while its backlog is written, and keeps its partitions."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_LOOK_S = 0.25
_SILENT_S = 90
"""Without a window or a commit: what is missing then does not come."""
COMMIT_S = 5
"""Between two commits while contenders are compared: the default of Quix Streams."""


@dataclass(frozen=True)
class Contender:
    """A program that reads samples and writes windows."""

    name: str
    command: Callable[[Path], list[str]]
    """What to run, given a folder for its state."""
    environment: Callable[[Topics], dict[str, str]]
    results: Callable[[int, int], int] = lambda _nodes, _seconds: 0
    """How many records it has sent at least when it has read so many seconds of so many nodes."""
    windows: Callable[[Iterable[bytes]], truth.Windows] = truth.of_ours
    late_s: float = truth.LATENESS_S
    """It sends a window when it reads a sample that is so much later than its end."""
    group: Callable[[Topics], str] | None = None
    """The consumer group that commits what was read; None: nothing is committed."""
    partitions: int = PARTITIONS
    """Tells how many each of its topics has."""


def ours(
    snapshot_interval: str = "30s", session_timeout: int = STOPPED_S, *, as_peer: bool = False
) -> Contender:
    """``dutycycle stream`` as it is, or with the work of a peer: the same windows of the same metrics."""
    given = WORK_OF_A_PEER if as_peer else {}
    settings = load({}, given)
    return replace(
        own_command(
            "stream", snapshot_interval=snapshot_interval, session_timeout=f"{session_timeout}s", **given
        ),
        name=SAME_WORK if as_peer else "Dutycycle",
        results=lambda nodes, seconds: windows_of(nodes, seconds, settings),
        group=lambda topics: app_id(topics.settings),
    )


def own_command(name: str, *arguments: str, **settings: str) -> Contender:
    """Return a long-lived command of ours, with these settings beside those that say which topics it has."""
    return Contender(
        name=name,
        command=lambda _: [sys.executable, "-m", "dutycycle", name, *arguments],
        environment=lambda topics: environ(
            broker=topics.broker.url, topic_prefix=topics.prefix, partitions=str(topics.partitions),
            **settings,
        ),
    )  # fmt: skip


def peer(name: str, title: str) -> Contender:
    """A peer, by its folder in ``bench/peers``, in its own environment."""
    folder = PEERS / name
    # Its virtual environment in the cache, made anew when its requirements have changed
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
    python = str(made / "bin" / "python")
    # Plain Faust sends a window when the next one begins; it does not wait for late samples.
    late_s = 0 if name == "faust" else truth.LATENESS_S

    def command(state: Path) -> list[str]:
        if name == "bytewax":
            return [python, "-m", "bytewax.run", "windows:flow"]
        if name == "faust":
            return [python, str(folder / "windows.py"), str(state), "worker"]
        return [python, str(folder / "windows.py"), str(state)]

    def environment(topics: Topics) -> dict[str, str]:
        return os.environ | {
            "PYTHONPATH": f"{folder}:{PEERS}", "BROKER": topics.broker.bootstrap, "SOURCE": topics.name(GPU),
            "SINK": topics.name("window-aggregates"), "GROUP": topics.group,
            "PARTITIONS": str(topics.partitions),
        }  # fmt: skip

    return Contender(
        name=title,
        command=command,
        environment=environment,
        results=lambda nodes, seconds: nodes * int((seconds - 1 - late_s) // truth.WINDOW_S),
        windows=truth.of_peer,
        late_s=late_s,
        group=None if name in ("bytewax", "pathway") else (lambda topics: topics.group),
        # Its clock is the newest time of all partitions: rows of one that it reads later would come too late.
        partitions=1 if name == "pathway" else PARTITIONS,
    )


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


def cpu_until_done(workers: list[Worker], who: Contender, topics: Topics, nodes: int, seconds: int) -> float:
    """CPU of the workers until all results are in Kafka, and what was read is committed.

    Seen four times a second, so that what they use while they wait for more is not counted. Raises
    ``WrongResultsError`` where nothing more comes and windows are missing.
    """
    wanted, group = who.results(nodes, seconds), who.group and who.group(topics)
    progress, since_s = (-1, -1), time.monotonic()

    def done() -> bool:
        nonlocal progress, since_s
        sent = topics.count("window-aggregates")
        committed = 0 if sent < wanted else topics.committed(group, GPU) if group else nodes * seconds
        if (sent, committed) != progress:
            progress, since_s = (sent, committed), time.monotonic()
        elif time.monotonic() - since_s > _SILENT_S:
            raise WrongResultsError(f"{who.name}: {sent} of {wanted} windows, and no more in {_SILENT_S} s")
        return sent >= wanted and committed >= nodes * seconds

    workers[0].wait(done, _LOOK_S)
    return sum(one.cpu_s() for one in workers)
