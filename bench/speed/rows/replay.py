"""A replay in process, without Kafka, and where its time goes."""

import re
import subprocess
import sys
from pathlib import Path

from bench.cluster_trace import Shape, records
from bench.speed.bench import Bench
from dutycycle.contract.trace import TraceWriter


def replay(bench: Bench) -> None:
    """µs of CPU a record, and by part, as ``bench.parts`` prints them."""
    bench.note("replay.how", "{} nodes × {} s".format(*bench.size.replays[-1]))
    for _ in range(bench.size.repeats):
        for nodes, seconds in bench.size.replays:
            cost, parts = _replay(bench, _trace(bench.folder, nodes, seconds))
            bench.add(f"replay.{nodes} nodes × {seconds} s", cost, "µs of CPU a record")
    for part, us in parts.items():
        bench.figures.add(f"replay.part.{part}", us)


def _trace(folder: Path, nodes: int, seconds: int) -> Path:
    """A trace file of both sources."""
    path = folder / f"{nodes}-{seconds}.jsonl"
    if not path.exists():
        with TraceWriter(str(path)) as out:
            for record in records(Shape(nodes=nodes, seconds=seconds)):
                out.write(record)
    return path


def _replay(bench: Bench, path: Path) -> tuple[float, dict[str, float]]:
    pinned = ["taskset", "--cpu-list", str(bench.cores[-1])]
    command = [*pinned, sys.executable, "-m", "bench.parts", str(path)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    parts = {name: float(us) for us, name in re.findall(r"^ *([\d.]+) +\d+%  (.+)$", text, re.MULTILINE)}
    whole = re.findall(r"^ *([\d.]+) +µs a record", text, re.MULTILINE)
    return float(whole[0]), parts
