"""Goal: launcher, data-loader workers and rank by command lines and environments, and how sure that is."""

import pytest

from collectors.process.commands import ProcessEntry, data_workers, launcher_of, rank_of

TRAIN = (b"python", b"train.py")


def seen(pid: int, *command: str, parent: int = 1, name: bytes = b"python") -> ProcessEntry:
    return ProcessEntry(pid, parent, name, tuple(word.encode() for word in command))


LAUNCHERS: dict[str, tuple[list[tuple[str, ...]], str | None]] = {
    "none": ([], None),
    "a shell": ([("bash", "-c", "torchrun is a word here")], None),
    "torchrun": ([("/usr/bin/python3", "/usr/local/bin/torchrun", "--nnodes=2", "train.py")], "torchrun"),
    "as a module": ([("python", "-m", "torch.distributed.run", "train.py")], "torchrun"),
    "an option before the module": ([("python", "-u", "-m", "torch.distributed.launch")], "torchrun"),
    "another module": ([("python", "-m", "http.server", "torchrun")], None),
    "an argument of the program": ([("python", "train.py", "mpirun")], None),
    "accelerate above torchrun": (
        [("python", "-m", "torch.distributed.run"), ("python", "/bin/accelerate", "launch")], "accelerate",
    ),
    "deepspeed": ([("python", "-u", "-m", "deepspeed.launcher.launch"), ("bash",)], "deepspeed"),
    "a worker of MPI": ([("sh", "-c", "x"), ("/opt/openmpi/bin/orted", "-mca", "ess"), ("sshd:",)], "mpirun"),
    "a program without words": ([("",)], None),
}  # fmt: skip


@pytest.mark.parametrize("case", LAUNCHERS)
def test_the_launcher(case: str) -> None:
    commands, expected = LAUNCHERS[case]
    assert launcher_of(seen(number, *command) for number, command in enumerate(commands)) == expected


SPAWNED = (
    "python",
    "-c",
    "from multiprocessing.spawn import spawn_main; spawn_main(5)",
    "--multiprocessing-fork",
)
TRACKER = ("python", "-c", "from multiprocessing.resource_tracker import main;main(5)")
SERVER = ("python", "-c", "from multiprocessing.forkserver import main; main(5, 6)")
WORKERS: dict[str, tuple[list[ProcessEntry], set[int], tuple[tuple[int, ...], str]]] = {
    "none": ([], set(), ((), "command")),
    "forked: the same command": (
        [seen(11, "python", "train.py"), seen(12, "python", "train.py")], set(), ((11, 12), "command")
    ),
    "named by PyTorch": (
        [seen(11, "python", "train.py", name=b"pt_data_worker"), seen(12, "python", "train.py")], set(),
        ((11,), "name"),
    ),
    "spawned, beside Python's own": ([seen(11, *SPAWNED), seen(12, *TRACKER)], set(), ((11,), "command")),
    "another rank is none": ([seen(11, "python", "train.py"), seen(12, *SPAWNED)], {11, 12}, ((), "command")),
    "a program that it called": ([seen(11, "git", "rev-parse", "HEAD")], set(), ((), "command")),
    "below a fork server": (
        [seen(11, *SERVER), seen(21, *SERVER, parent=11), seen(22, *SERVER, parent=11)], set(),
        ((21, 22), "command"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WORKERS)
def test_data_loader_workers(case: str) -> None:
    others, ranks, expected = WORKERS[case]
    children: dict[int, list[ProcessEntry]] = {}
    for one in others:
        children.setdefault(10 if one.parent == 1 else one.parent, []).append(one)
    assert data_workers(ProcessEntry(10, 1, b"python", TRAIN), children, frozenset(ranks)) == expected


ENVIRONS: dict[str, tuple[dict[str, str], dict[str, int | str]]] = {
    "none": ({}, {}),
    "torchrun's": (
        {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "MASTER_ADDR": "bert-worker-0.bert"},
        {"rank": 3, "local_rank": 1, "world_size": 8, "master_addr": "bert-worker-0.bert"},
    ),
    "Open MPI's": (
        {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_SIZE": "16"},
        {"rank": 5, "local_rank": 1, "world_size": 16},
    ),
    "torchrun's before those of MPI": ({"RANK": "0", "OMPI_COMM_WORLD_RANK": "5"}, {"rank": 0}),
    "no numbers": ({"RANK": "-1", "WORLD_SIZE": "", "LOCAL_RANK": "1e3", "MASTER_ADDR": ""}, {}),
    "numbers beyond all ranks": ({"RANK": "9" * 40, "WORLD_SIZE": "٣"}, {}),
    "an address that is none": ({"MASTER_ADDR": "a\nb"}, {}),
    "secrets": ({"AWS_SECRET_ACCESS_KEY": "x", "RANK_TOKEN": "y", "XRANK": "1", "rank": "2"}, {}),
}


@pytest.mark.parametrize("case", ENVIRONS)
def test_the_rank(case: str) -> None:
    variables, expected = ENVIRONS[case]
    assert rank_of("\0".join(f"{name}={value}" for name, value in variables.items()).encode()) == expected


def test_bytes_that_are_no_environment() -> None:
    assert rank_of(b"RANK\0=\0\xff\xfe=\xff\0RANK=7") == {"rank": 7}
