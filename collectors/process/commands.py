"""Reads what command lines and environments of processes say: launcher, data-loader workers, rank. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_PROGRAMS = {
    "torchrun": "torchrun", "accelerate": "accelerate", "deepspeed": "deepspeed", "mpirun": "mpirun",
    "mpiexec": "mpirun", "orterun": "mpirun", "orted": "mpirun", "prted": "mpirun", "prterun": "mpirun",
    "hydra_pmi_proxy": "mpirun", "mpiexec.hydra": "mpirun", "horovodrun": "horovodrun",
    "slurmstepd": "srun", "srun": "srun", "raylet": "ray",
}  # fmt: skip
_MODULES = {
    "torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun",
    "torch.distributed.elastic": "torchrun", "accelerate.commands": "accelerate",
    "deepspeed.launcher": "deepspeed", "horovod.runner": "horovodrun",
}  # fmt: skip
_OUTER = ("accelerate", "deepspeed")
"""They start others of these, or bring what torchrun has: what the user called is the outermost."""
_TORCH_WORKER = b"pt_data_worker"
_SPAWNED, _FORK_SERVER = b"multiprocessing.spawn", b"multiprocessing.forkserver"
_RANK = {
    "rank": ("RANK", "OMPI_COMM_WORLD_RANK"),
    "local_rank": ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "world_size": ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"),
}
_ADDRESS = "MASTER_ADDR"
_NAMES = frozenset({_ADDRESS, *(name for names in _RANK.values() for name in names)})
_MOST = 2**31
_LONGEST = 253  # no name in DNS is longer


@dataclass(frozen=True, slots=True)
class ProcessEntry:
    """Holds a process as its ``stat`` and ``cmdline`` show it."""

    pid: int
    parent: int
    name: bytes
    command: tuple[bytes, ...]


def launcher_of(ancestors: Iterable[ProcessEntry]) -> str | None:
    """Return what started a process, by the command lines of its parents, the nearest first."""
    launchers = [name for ancestor in ancestors if (name := _launcher(ancestor.command)) is not None]
    return next((name for name in launchers if name in _OUTER), launchers[0] if launchers else None)


def _launcher(command: Sequence[bytes]) -> str | None:
    """Tell the launcher by the program, the script that an interpreter runs, or the module after ``-m``."""
    program, *words = [word.decode(errors="replace") for word in command[:5]]
    if (name := _PROGRAMS.get(program.rpartition("/")[2])) is not None or "python" not in program:
        return name
    before = ""
    for word in words:
        if before == "-m":
            return next((name for module, name in _MODULES.items() if word.startswith(module)), None)
        if not word.startswith("-"):
            return _PROGRAMS.get(word.rpartition("/")[2])
        before = word
    return None


def data_workers(
    process: ProcessEntry, children: Mapping[int, Sequence[ProcessEntry]], ranks: frozenset[int]
) -> tuple[tuple[int, ...], str]:
    """Return the workers of a process, and how they are known.

    ``name``: PyTorch named them (certain). ``command``: they are children that run the same command, or that
    Python's multiprocessing started (likely; a pool of the program's own looks the same). ``ranks``:
    processes that use a GPU or train, and so are none.
    """
    below = [child for child in children.get(process.pid, ()) if child.pid not in ranks]
    for server in [child for child in below if _has(child, _FORK_SERVER)]:
        below.remove(server)
        below += [child for child in children.get(server.pid, ()) if child.pid not in ranks]
    named = tuple(child.pid for child in below if child.name == _TORCH_WORKER)
    if named:
        return named, "name"
    alike = tuple(
        child.pid
        for child in below
        if child.command == process.command or _has(child, _SPAWNED) or _has(child, _FORK_SERVER)
    )
    return alike, "command"


def _has(process: ProcessEntry, words: bytes) -> bool:
    return any(words in part for part in process.command)


def rank_of(environ: bytes) -> dict[str, int | str]:
    """Return the fields of ``Software`` that come from the environment. No other variable is looked at: they
    hold secrets."""
    known: dict[str, str] = {}
    for pair in environ.split(b"\0"):
        name, _, value = pair.partition(b"=")
        if (text := name.decode(errors="replace")) in _NAMES:
            known[text] = value.decode(errors="replace")
    fields: dict[str, int | str] = {}
    for field, names in _RANK.items():
        number = next((known[name] for name in names if name in known), "")
        if number.isascii() and number.isdecimal() and len(number) < 11 and int(number) < _MOST:
            fields[field] = int(number)
    address = known.get(_ADDRESS, "")
    if 0 < len(address) <= _LONGEST and address.isascii() and address.isprintable() and " " not in address:
        fields["master_addr"] = address
    return fields
