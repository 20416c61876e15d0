"""Goal: what the records of processes add up to, and how it is said."""

from itertools import count

import pytest

from dutycycle.contract.records.processes import Loop, Package, Process, Software
from dutycycle.traces.processes import TracedProcess, figures, named

NAMES = {"a": "bert-0", "b": "bert-1"}


def seen(*found: Software | Loop, pod_uid: str = "a", pid: int = 7) -> TracedProcess:
    """A process with one record a second."""
    one = TracedProcess(pod_uid, pid)
    for ts_ms, part in zip(count(0, 1000), found, strict=False):
        software = part if isinstance(part, Software) else None
        loop = part if isinstance(part, Loop) else None
        one.add(ts_ms, Process(pid=pid, pod_uid=pod_uid, software=software, loop=loop))
    return one


def loop(steps: int, seconds: float, samples: int | None = None, **facts: float) -> Loop:
    return Loop(loop="pytorch", steps=steps, seconds=seconds, samples=samples, **facts)  # type: ignore[arg-type]


TORCH = (Package(name="torch", version="2.4.0"), Package(name="tensorflow"))


def test_steps_add_up_and_a_slow_first_one_is_not_the_median() -> None:
    one = seen(
        loop(1, 9.0, 8, longest_s=9.0), loop(4, 1.0, 32, longest_s=0.3), loop(2, 0.5, 16, loss_scale=4)
    )
    assert one.loop is not None
    assert (one.loop.steps, one.loop.seconds, one.loop.samples) == (7, 10.5, 56)
    assert (one.loop.longest_s, one.loop.loss_scale, one.step_s) == (9.0, 4, 0.25)
    assert dict(figures([one], ("GPU utilization", 0.5))) == {
        "Steps": "7, 40 a minute, as the training reports",
        "Time of a step": "0.25 s in the median, longest 9 s",
        "Steps in a cycle": "2.00 (the cycle of GPU utilization, 0.5 s)",
        "Samples": "5.333 a second",
        "Model": "loss scale 4",
    }


def test_uneven_steps_are_counted_over_the_cycle() -> None:
    """Five steps of 0.6 s and one of 3 s, in cycles of 6 s: six steps, whatever the median is."""
    one = seen(*(loop(1, 3.0 if number % 6 == 5 else 0.6) for number in range(120)))
    found = dict(figures([one], ("GPU utilization", 6.0)))
    assert found["Time of a step"].startswith("0.6 s in the median")
    assert found["Steps in a cycle"].startswith("6.00 ")


def test_without_a_cycle_a_size_or_a_step() -> None:
    found = dict(figures([seen(loop(2, 1.0))], None))
    assert found.keys() == {"Steps", "Time of a step"}
    assert list(figures([seen(loop(0, 0.0)), seen()], None)) == []
    assert list(figures([seen(Software(data_workers=0))], None)) == []


def test_what_a_process_runs() -> None:
    one = seen(
        Software(frameworks=TORCH, cuda="12.1", python="3.11", launcher="torchrun", rank=3, world_size=8,
                 data_workers=4, data_workers_by="name"),
    )  # fmt: skip
    assert dict(figures([one], None)) == {
        "Software": "torch 2.4.0, tensorflow, CUDA 12.1, Python 3.11",
        "Started by": "torchrun, rank 3 of 8, 4 data-loader workers",
    }


def test_workers_that_come_and_go_count_with_their_most() -> None:
    one = seen(
        Software(frameworks=TORCH, data_workers=2, data_workers_by="command"),
        Software(frameworks=TORCH, nccl="2.20", data_workers=0),
    )
    assert one.software is not None
    assert (one.software.nccl, one.software.data_workers) == ("2.20", 2)
    assert dict(figures([one], None))["Started by"] == "2 data-loader workers (by their command: likely)"


RANKED = [
    # the ranks of processes in pods, and what they are called
    ([("a", 7, 1), ("a", 8, 0)], ["rank 0", "rank 1"]),
    ([("a", 7, None)], ["process 7"]),
    ([("a", 7, 0), ("b", 7, 0)], ["bert-0 process 7", "bert-1 process 7"]),
    ([("c", 6, None), ("a", 7, 0)], ["rank 0", "c process 6"]),
]


@pytest.mark.parametrize(("processes", "names"), RANKED)
def test_names_of_processes(processes: list[tuple[str, int, int | None]], names: list[str]) -> None:
    found = named(
        (seen(Software(rank=rank), pod_uid=uid, pid=pid) for uid, pid, rank in processes), None, NAMES
    )
    assert [one.name for one in found] == names


def test_only_the_processes_of_the_pods_that_are_shown() -> None:
    every = [seen(pod_uid="a"), seen(pod_uid="b")]
    assert [one.pod_uid for one in named(every, {"b"}, NAMES)] == ["b"]
    assert len(named(every, None, NAMES)) == 2


def test_of_several_ranks_the_one_with_most_steps_speaks_and_samples_are_of_all() -> None:
    ranks = [seen(Software(rank=rank), loop(steps, 10.0, 80), pid=rank) for rank, steps in ((0, 20), (1, 21))]
    found = dict(figures(named(ranks, None, NAMES), None))
    assert found["Steps"].startswith("21 of rank 1, 126 a minute")
    assert found["Samples"] == "16 a second in all"
