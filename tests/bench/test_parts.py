"""``python -m bench.parts`` on a short trace: every part has its time, and together they are all of it."""

import re
import subprocess
import sys
from pathlib import Path

from bench.cluster_trace import Shape, records
from bench.parts import PARTS
from tests.support.data.traces import write_trace


def test_the_parts_are_the_whole(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.jsonl", records(Shape(nodes=1, gpus=1, seconds=70)))
    command = [sys.executable, "-m", "bench.parts", str(path)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = {name: float(us) for us, name in re.findall(r"^ *([\d.]+) +\d+%  (.+)$", text, re.MULTILINE)}
    assert found.keys() == {"decode", *PARTS}
    total, timed = (
        float(one) for one in re.findall(r"^ *([\d.]+) +µs.*, ([\d.]+) with timers", text, re.MULTILINE)[0]
    )
    # Two runs, on a machine that may be busy with other things.
    assert 0.3 * total < sum(found.values()) < timed
