"""``python -m tests.mutations [TEXT]``: does a test notice each fault of ``faults.tsv``?

A fault is one line of the code, made wrong: in its file, ``before`` stands once and becomes ``after``, and
one of the tests that are named has to fail. It is put into a copy of the working tree, never into the tree;
the tests that fail have to pass without the faults. Before tests are made fewer or shorter, and after it, the
same faults must be noticed. With TEXT only those whose file or tests have it in their path.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("faults.tsv")
_SERVERLESS = "not kafka and not postgres and not kube and not soak"


class Fault(NamedTuple):
    """One row of the list; ``tests`` are files or folders below ``tests/``, which need no server."""

    source: str
    before: str
    after: str
    tests: str


def read_faults() -> list[Fault]:
    """Read the list."""
    return [Fault(*line.split("\t")) for line in LIST.read_text().splitlines()[1:]]


def mutated(text: str, fault: Fault) -> str:
    """The source with the fault in it. Raises ValueError where the list is out of date."""
    if (times := text.count(fault.before)) != 1:
        raise ValueError(
            f"{LIST.name}: {fault.source} has {fault.before!r} {times} times: name what stands there once"
        )
    return text.replace(fault.before, fault.after)


def copy_tree(folder: Path) -> None:
    """Copy what git knows or would add, and what numba has compiled, which lies beside it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    compiled = [path for ending in ("nbi", "nbc") for path in ROOT.glob(f"streams/**/__pycache__/*.{ending}")]
    for source in [*(ROOT / name for name in listed.split("\0") if name), *compiled]:
        if source.is_file():
            target = folder / source.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def run_tests(folder: Path, tests: list[str]) -> tuple[int, str]:
    """Run tests of the copy that need no server; pytest's exit status, and what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-m", _SERVERLESS, *tests],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "1000"},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def run_with(folder: Path, fault: Fault) -> tuple[str | None, str]:
    """Put the fault in and take it out again; the first test that failed, if any, and what pytest printed."""
    source = folder / fault.source
    right = source.read_text()
    source.write_text(mutated(right, fault))
    try:
        _, output = run_tests(folder, ["-x", *(f"tests/{name}" for name in fault.tests.split())])
    finally:
        source.write_text(right)
    failed = re.search(r"^(?:FAILED|ERROR) (tests/[^\s:]+::\w+)", output, re.MULTILINE)
    return failed[1] if failed else None, output


def main(text: str = "") -> int:
    """Try the faults whose file or tests have ``text`` in their path; 1 if any is missed, else 0."""
    chosen = [fault for fault in read_faults() if text in fault.source or text in fault.tests]
    caught: dict[Fault, str] = {}
    with tempfile.TemporaryDirectory(prefix="dutycycle-mutations-") as name:
        folder = Path(name)
        copy_tree(folder)
        for fault in chosen:
            began_s = time.monotonic()
            try:
                failed, output = run_with(folder, fault)
            except ValueError as error:
                failed, output = None, str(error)
            if failed is not None:
                caught[fault] = failed
            outcome = f"caught by {failed}" if failed else f"MISSED: {output[-300:].strip()}"
            seconds = time.monotonic() - began_s
            print(f"{fault.source}: {fault.after!r} {outcome} ({seconds:.0f} s)", flush=True)
        status, output = run_tests(folder, sorted(set(caught.values()))) if caught else (0, "")
    if status:
        print(f"What fails without any fault proves nothing:\n{output[-3000:]}")
    print(f"{len(caught)} of {len(chosen)} faults are caught")
    return 0 if chosen and len(caught) == len(chosen) and not status else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
