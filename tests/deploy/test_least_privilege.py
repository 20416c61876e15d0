"""What the collector sees of other users' processes as the chart runs it: user 10001, no capability at all.

On the real kernel, with processes in network namespaces of their own. It takes root to become that user.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.data.torch_site import torch_site

ROOT = Path(__file__).parents[2]
NOBODY = [
    *("setpriv", "--reuid=10001", "--regid=10001", "--clear-groups"),
    *("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"),
]
IMPORT = (
    "import sys; sys.path.insert(0, {root!r}); "
    "import collectors.cgroup.network, collectors.attribution.processes"
)
# Each argument is a folder whose proc/1 is a process: what is the host's elsewhere is that process's here.
LOOK = """
import sys
sys.path.insert(0, {root!r})
from collectors.attribution.processes import cgroup_paths
from collectors.cgroup.network import PodNetworks
from collectors.files import FilePool
from collectors.interfaces import interface_bytes
from pathlib import Path
for folder in sys.argv[1:]:
    process = Path(folder) / "proc/1"
    try:
        (process / "ns/net").readlink()
    except PermissionError:
        linked = False
    else:
        linked = True
    interfaces = interface_bytes((process / "net/dev").read_text())
    cgroups = cgroup_paths((process / "cgroup").read_text())
    print(PodNetworks(folder, FilePool()).host_namespace(), linked, len(interfaces) > 0, len(cgroups) > 0)
"""

# What is read of the process of each number.
READ = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
import msgspec
from collectors.process.software import Processes
processes = Processes(Path("/proc"))
for pid in sys.argv[1:]:
    print(msgspec.json.encode(processes.software(int(pid), frozenset({{int(pid)}}))).decode())
"""
SYS_PTRACE = [
    *("setpriv", "--reuid=0", "--regid=0", "--clear-groups", "--inh-caps=-all,+sys_ptrace"),
    *("--bounding-set=-all,+sys_ptrace", "--no-new-privs", "--"),
]
OTHER = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "--"]
TRAINS = """
import ctypes, sys
ctypes.CDLL(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
"""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv, to become another user"
)


@pytest.fixture
def folders() -> Iterator[list[str]]:
    """Of two processes that share a network namespace, and of one that has its own."""
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        top.chmod(0o755)
        commands = (["sleep", "60"], ["sleep", "60"], ["unshare", "--net", "sh", "-c", "echo; exec sleep 60"])
        made = []
        for number, command in enumerate(commands):
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            stack.callback(process.kill)
            if command[0] == "unshare":
                assert process.stdout is not None
                if not process.stdout.readline():
                    pytest.skip("this machine lets nobody make a network namespace")
            link = top / str(number) / "proc" / "1"
            link.parent.mkdir(parents=True)
            link.symlink_to(f"/proc/{process.pid}")
            made.append(str(top / str(number)))
        yield made


@pytest.fixture(params=[OTHER, []], ids=["of another user", "of root"])
def training(request: pytest.FixtureRequest) -> Iterator[int]:
    """A process that has loaded a library under PyTorch's name: of a third user, and of root."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        library = torch_site(Path(folder)) / "torch/lib/libtorch_cpu.so"
        for one in (Path(folder), *Path(folder).rglob("*")):
            one.chmod(0o755)
        process = stack.enter_context(
            subprocess.Popen(
                [*request.param, sys.executable, "-c", TRAINS, str(library)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"RANK": "3"},
            )
        )  # fmt: skip
        stack.callback(process.kill)
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            pytest.skip("another user may not run this Python")
        yield process.pid


def test_software_of_another_user_takes_the_capability_and_else_is_said_to_be_missing(training: int) -> None:
    script = READ.format(root=str(ROOT))
    if as_nobody("-c", IMPORT.format(root=str(ROOT))).returncode:
        pytest.skip("user 10001 may not read this checkout or its Python")
    done = as_nobody("-c", script, str(training))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"data_workers": 0, "unreadable": ["maps", "environ"]}
    done = as_nobody("-c", script, str(training), who=SYS_PTRACE)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["frameworks"] == [{"name": "torch", "version": "2.4.0"}]
    if Path(f"/proc/{training}").stat().st_uid == 0:
        assert (found["rank"], "unreadable" in found) == (3, False)
    else:  # an environment is its owner's file: that would take DAC_READ_SEARCH as well
        assert ("rank" in found, found["unreadable"]) == (False, ["environ"])


def as_nobody(*arguments: str, who: list[str] = NOBODY) -> "subprocess.CompletedProcess[str]":
    command = [*who, sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_namespaces_counters_and_cgroups_need_no_capability(folders: list[str]) -> None:
    if as_nobody("-c", IMPORT.format(root=str(ROOT))).returncode:
        pytest.skip("user 10001 may not read this checkout or its Python")
    done = as_nobody("-c", LOOK.format(root=str(ROOT)), *folders)
    assert done.returncode == 0, done.stderr
    host, also_host, own = (line.split() for line in done.stdout.splitlines())
    assert host[0] == also_host[0] != own[0]
    assert "None" not in (host[0], own[0])
    for found in (host, also_host, own):
        assert found[1:] == ["False", "True", "True"]  # the link is not to be read; counters and cgroup are
