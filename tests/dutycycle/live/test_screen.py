"""The screen, by Textual's own pilot: keys, the mouse, views, and that it fits at every size."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from textual.pilot import Pilot

from dutycycle.live.model.processes import LocalProcesses
from dutycycle.live.model.state import LiveState
from dutycycle.live.screen.app import VIEWS, Screen
from dutycycle.live.screen.rows import Rows
from dutycycle.live.source import Source
from tests.support.fleet import fleet
from tests.support.live import cgroup, feed, nvml
from tests.support.targets import slow_after

SIZES = [(80, 24), (120, 40), (200, 50)]


def screen(state: LiveState, degraded: Sequence[str] = ()) -> Screen:
    source = Source(state, "dutycycle on gpu-a", "broker: kafka://b:1", lambda: degraded, asyncio.Event())
    return Screen(source, clock=lambda: state.now_ms / 1000)


def shown(pilot: Pilot[None]) -> list[str]:
    """What is on the terminal, a text a line."""
    width, height = pilot.app.size
    lines = pilot.app.screen._compositor.render_strips()
    assert len(lines) == height
    texts = [strip.text for strip in lines]
    assert {strip.cell_length for strip in lines} == {width}
    return texts


async def seen(pilot: Pilot[None], part: str) -> None:
    """Wait until it is on the terminal."""
    deadline = time.monotonic() + 240
    while part not in "\n".join(shown(pilot)):
        assert time.monotonic() < deadline, "\n".join(shown(pilot))
        await pilot.pause(0.05)


def first_cells(pilot: Pilot[None]) -> list[str]:
    """Of the table's rows."""
    table = pilot.app.query_one(Rows)
    top, bottom = table.region.y + 1, table.region.bottom
    return [text.split(" ")[0] for text in shown(pilot)[top:bottom] if text.strip()]


@pytest.mark.parametrize("size", slow_after(1, SIZES))
@pytest.mark.parametrize("gpus", slow_after(1, [8, 40]))
async def test_every_view_fits(size: tuple[int, int], gpus: int) -> None:
    app = screen(fleet(gpus))
    async with app.run_test(size=size) as pilot:
        for number, view in enumerate(VIEWS, start=1):
            await pilot.press(str(number))
            lines = shown(pilot)
            assert f" {number} {view.title} " in lines[1]
            assert lines[0].startswith("dutycycle on gpu-a")
            assert lines[-2].startswith("! GPU gpu-a:2: memory full in 14m"), "always visible"
            assert "quit" in lines[-1]
            assert "what it does" in lines[2] or view.title in ("Nodes", "Processes")


async def test_a_line_that_is_cut_says_so() -> None:
    """Of "312/1128 GiB" the beginning is another figure."""
    async with screen(fleet(8)).run_test(size=(40, 20)) as pilot:
        await seen(pilot, "quit")
        lines = shown(pilot)
        assert [line[-1] for line in (lines[0], lines[1], lines[-2])] == ["…", "…", "…"]


async def test_activity_has_columns_where_gpus_tell_it() -> None:
    """A GPU that is 100 % used, and hardly works. Without such figures the columns are not there."""
    state = LiveState()
    feed(state, "nvml-samples", "a", nvml(100, sm_active_pct=12, tensor_active_pct=3))
    async with screen(state).run_test(size=(120, 40)) as pilot:
        lines = shown(pilot)
        assert lines[2].split()[:4] == ["GPU", "use", "SM", "tensor"]
        assert {"12", "3"} <= set(lines[3].replace("%", " ").split())
        await pilot.press("enter")
        await seen(pilot, "SM")
        assert re.search(r"SM +12\.0 %", "\n".join(shown(pilot)))
    async with screen(fleet(8)).run_test(size=(120, 40)) as pilot:
        assert "tensor" not in shown(pilot)[2]


async def test_gpus_are_in_the_order_of_their_numbers_and_say_what_they_do() -> None:
    async with screen(fleet(8)).run_test(size=(120, 40)) as pilot:
        assert first_cells(pilot) == list("01234567")
        _, _, _, first, second, third, *_ = shown(pilot)
        for part in ("20/141G", "108/700W", "training: GPU waits for input, cycle 10"):
            assert part in first, first
        assert "slowed by" in second
        assert "memory full in 14m" in third


@pytest.mark.slow
async def test_scrolling_reaches_the_last_of_forty() -> None:
    async with screen(fleet(40)).run_test(size=(80, 24)) as pilot:
        assert first_cells(pilot)[:2] == ["gpu-a:0", "gpu-a:1"]
        await pilot.press("end")
        assert first_cells(pilot)[-1] == "gpu-e:7"
        await pilot.press("home")
        assert first_cells(pilot)[0] == "gpu-a:0"
        await pilot.press("pagedown", "pagedown", "pagedown")
        assert first_cells(pilot)[-1] == "gpu-e:7"


async def test_sorted_by_memory_the_fullest_comes_first_and_the_cursor_stays_on_its_gpu() -> None:
    async with screen(fleet(8)).run_test(size=(120, 40)) as pilot:
        table = pilot.app.query_one(Rows)
        await pilot.press("down", "down", "s", "s", "s")
        assert table.sort == ("memory", False)
        assert first_cells(pilot) == list("76543210")
        assert table.cursor == 5, "GPU 2 is the sixth now"
        await pilot.press("r")
        assert first_cells(pilot) == list("01234567")
        await pilot.press("S", "S", "S")
        assert table.sort == ("", False)


@pytest.mark.slow
async def test_a_filter_keeps_the_rows_with_all_words_and_escape_ends_it() -> None:
    async with screen(fleet(40)).run_test(size=(120, 40)) as pilot:
        await pilot.press("slash", *"gpu-c BERT", "enter")
        assert first_cells(pilot) == ["gpu-c:0", "gpu-c:1", "gpu-c:2", "gpu-c:3"]
        assert "/gpu-c BERT" in shown(pilot)[1]
        await pilot.press("slash", *" nothing", "enter")
        assert "nothing matches" in shown(pilot)[3]
        await pilot.press("escape")
        assert first_cells(pilot)[0] == "gpu-a:0"


async def test_frozen_it_stands_still_and_goes_on_with_what_came_meanwhile() -> None:
    state = LiveState()
    feed(state, "nvml-samples", "a", nvml(10))
    async with screen(state).run_test(size=(120, 40)) as pilot:
        await pilot.press("space")
        feed(state, "nvml-samples", "a", nvml(90, 2000))
        await pilot.press("2", "1")
        assert "10 %" in shown(pilot)[3]
        assert "frozen" in shown(pilot)[1]
        await pilot.press("space")
        assert "90 %" in shown(pilot)[3]


async def test_the_mouse_chooses_tabs_rows_and_sorts_by_titles() -> None:
    async with screen(fleet(8)).run_test(size=(120, 40)) as pilot:
        table = pilot.app.query_one(Rows)
        await pilot.click(Rows, offset=(1, 4))
        assert table.cursor == 3
        await pilot.click(Rows, offset=(shown(pilot)[2].index("memory"), 0))
        assert (table.sort, first_cells(pilot)[0]) == (("memory", False), "7")
        await pilot.click("#tabs", offset=(shown(pilot)[1].index("Pods"), 0))
        assert table.view.title == "Pods"


async def test_resized_it_shows_what_has_room() -> None:
    async with screen(fleet(8)).run_test(size=(200, 50)) as pilot:
        assert "MHz" in shown(pilot)[2]
        await pilot.resize_terminal(60, 15)
        await pilot.pause(0.5)
        lines = shown(pilot)
        assert "MHz" not in lines[2]
        assert lines[-2].startswith("! GPU gpu-a:2")


async def test_q_stops_what_runs_and_keys_still_come_here_until_that_has_ended() -> None:
    app = screen(fleet(8))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("q")
        assert app._source.stop.is_set()
        assert shown(pilot)[-2].startswith("stopping")
        assert app.is_running, "it ends when the rest has"
        app.leave()


async def test_names_with_brackets_are_shown_as_they_are() -> None:
    state = LiveState()
    process = {"pid": 7, "name": "[/x] [bold]python"}
    feed(state, "nvml-samples", "a", nvml(10, processes=[process]))
    async with screen(state, ["[red]away"]).run_test(size=(200, 50)) as pilot:
        assert "[/x] [bold]python" in shown(pilot)[3]
        assert shown(pilot)[-2].startswith("! [red]away")


async def test_before_the_first_sample_it_says_that_it_waits() -> None:
    async with screen(LiveState()).run_test(size=(80, 24)) as pilot:
        assert "waiting for the first sample" in shown(pilot)[0]


async def test_without_a_gpu_the_pods_come_first() -> None:
    state = LiveState()
    feed(state, "cgroup-samples", "a", cgroup())
    async with screen(state).run_test(size=(80, 24)) as pilot:
        assert pilot.app.query_one(Rows).view.title == "Pods"
        assert "no GPU, CPU 150 %" in shown(pilot)[0]
        await pilot.press("1")
        assert "no GPU was sampled" in shown(pilot)[3]


async def test_enter_opens_a_subject_the_arrows_its_neighbour_and_escape_leads_back() -> None:
    async with screen(fleet(8)).run_test(size=(120, 40)) as pilot:
        await pilot.press("down", "enter")
        await seen(pilot, "One cycle of 16 s")
        assert shown(pilot)[2].startswith("GPU gpu-a:1  NVIDIA H200")
        await pilot.press("right")
        await seen(pilot, "One cycle of 7 s")
        assert shown(pilot)[2].startswith("GPU gpu-a:2")
        await pilot.press("escape")
        await seen(pilot, "history")
        assert first_cells(pilot) == list("01234567")
        assert pilot.app.query_one(Rows).cursor == 2


async def test_a_subject_that_is_gone_says_so() -> None:
    state = fleet(8)
    async with screen(state).run_test(size=(120, 40)) as pilot:
        await pilot.press("2", "enter")
        await seen(pilot, "GPU use: the last")
        assert shown(pilot)[2].startswith("pod ml/bert-worker-a")
        state.feed("pods", "gpu-a-0", None, state.now_ms)
        await seen(pilot, "this is gone")


async def test_help_and_warnings_come_and_go() -> None:
    async with screen(fleet(8), ["sink ended with status 1"]).run_test(size=(80, 30)) as pilot:
        await pilot.press("question_mark")
        await seen(pilot, "freeze, and go on")
        await pilot.press("w")
        await seen(pilot, "! sink ended with status 1")
        await pilot.press("w")
        await seen(pilot, "what it does")


def running(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A process of this machine that says when it is there, and waits."""
    (folder / "train.py").write_text("import time; print('ready', flush=True); time.sleep(600)")
    process = subprocess.Popen([sys.executable, "train.py", *arguments], cwd=folder, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.fixture
def trainings(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two trainings of one login session."""
    processes = [running(tmp_path, "--lr", f"0.{number}") for number in (1, 2)]
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def local_state(trainings: Sequence[subprocess.Popen[bytes]], *, may_signal: bool = True) -> LiveState:
    state = LiveState(local=LocalProcesses("a", may_signal))
    on_gpu = [
        {"pid": training.pid, "name": "python", "pod_uid": "session-3", "mem_used_bytes": 2**30}
        for training in trainings
    ]
    feed(state, "nvml-samples", "a", nvml(90, int(time.time() * 1000), processes=on_gpu))
    return state


async def test_processes_of_this_machine_have_user_command_and_age_and_two_of_a_session_two_rows(
    trainings: list[subprocess.Popen[bytes]],
) -> None:
    user = psutil.Process(trainings[0].pid).username()
    async with screen(local_state(trainings)).run_test(size=(220, 50)) as pilot:
        await pilot.press("5")
        lines = shown(pilot)
        for title in ("user", "CPU", "memory", "age", "job, pod", "process"):
            assert title in lines[2]
        rows = [line for line in lines[3:] if "train.py" in line]
        assert len(rows) == 2
        assert all(user in row for row in rows)
        assert {"train.py --lr 0.1", "train.py --lr 0.2"} == {
            row[row.index("train.py") :].strip() for row in rows
        }
        await pilot.press("enter")
        await seen(pilot, "host memory")
        text = "\n".join(shown(pilot))
        assert f"process {trainings[0].pid}" in text
        assert "started" in text
        assert f"{psutil.Process().name()} {os.getpid()}" in text, "its parent is this process"


async def test_on_a_hundred_columns_user_and_age_have_room_and_a_session_is_told_once(
    trainings: list[subprocess.Popen[bytes]],
) -> None:
    state = local_state(trainings)
    async with screen(state).run_test(size=(100, 30)) as pilot:
        await pilot.press("5")
        lines = shown(pilot)
        assert [title for title in ("user", "CPU", "memory", "age", "process") if title not in lines[2]] == []
        assert [("session" in line, "└" in line) for line in lines[3:5]] == [(True, False), (False, True)]


async def test_a_process_of_which_nobody_knows_the_name_is_called_by_none() -> None:
    state = LiveState()
    feed(state, "nvml-samples", "a", nvml(10, processes=[{"pid": 4_000_000}]))
    async with screen(state).run_test(size=(100, 30)) as pilot:
        await pilot.press("5")
        (line,) = [line for line in shown(pilot)[3:] if "4000000" in line]
        assert line.rstrip().endswith("·")


async def test_a_signal_is_sent_after_a_yes_and_not_without(trainings: list[subprocess.Popen[bytes]]) -> None:
    first, second = trainings
    async with screen(local_state(trainings)).run_test(size=(160, 40)) as pilot:
        await pilot.press("5", "t")
        await seen(pilot, f"send SIGTERM to process {first.pid}")
        await pilot.press("n")
        assert f"send SIGTERM to process {first.pid}" not in "\n".join(shown(pilot))
        assert first.poll() is None
        await pilot.press("t", "y")
        await seen(pilot, f"SIGTERM was sent to {first.pid}")
        assert first.wait(240) == -signal.SIGTERM
        assert second.poll() is None
        await pilot.press("down", "K", "y")
        assert second.wait(240) == -signal.SIGKILL


async def test_signals_can_be_switched_off(trainings: list[subprocess.Popen[bytes]]) -> None:
    async with screen(local_state(trainings, may_signal=False)).run_test(size=(160, 40)) as pilot:
        await pilot.press("5", "t", "y")
        await seen(pilot, "signals are switched off: DUTYCYCLE_SIGNALS=off")
        assert trainings[0].poll() is None


@pytest.mark.parametrize("local", [LocalProcesses("another-node", may_signal=True), None])
async def test_a_process_of_another_machine_has_what_the_driver_says_alone(
    local: LocalProcesses | None, trainings: list[subprocess.Popen[bytes]],
) -> None:  # fmt: skip
    """``None``: as in the demo, whose processes are of no machine."""
    state = local_state(trainings)
    state.local = local
    async with screen(state).run_test(size=(160, 40)) as pilot:
        await pilot.press("5")
        assert "user" not in shown(pilot)[2]
        assert "age" not in shown(pilot)[2]
        await pilot.press("t", "y")
        await seen(pilot, "is not of this machine")
        assert trainings[0].poll() is None


async def test_processes_stand_below_their_job() -> None:
    async with screen(fleet(8)).run_test(size=(160, 40)) as pilot:
        await pilot.press("5")
        rows = shown(pilot)[3:11]
        assert [("ml/bert" in row, "└ ml/bert-worker-a" in row) for row in rows[:4]] == [
            (True, False), (True, True), (True, True), (True, True),
        ]  # fmt: skip
        assert "ml/chat" in rows[4]


def test_a_process_that_has_ended_gets_no_signal(tmp_path: Path) -> None:
    first = running(tmp_path)
    local = LocalProcesses("a", may_signal=True)
    facts = local.facts(first.pid)
    assert facts is not None
    assert facts.cpu_pct is None, "nothing is known of its CPU before a second look"
    first.kill()
    first.wait()
    assert local.send(first.pid, signal.SIGTERM) == f"process {first.pid} has ended"


def test_cpu_is_told_from_the_second_look_on() -> None:
    now_s = [0.0]
    local = LocalProcesses("a", clock=lambda: now_s[0])
    assert local.facts(os.getpid()) is local.facts(os.getpid()), "looked at once in a moment"
    deadline = time.monotonic() + 240
    while (facts := local.facts(os.getpid())) is None or not facts.cpu_pct:
        now_s[0] += 1
        sum(range(200_000))
        assert time.monotonic() < deadline
    assert facts.mem_bytes
    assert facts.mem_bytes > 2**20


async def test_a_tick_while_the_screen_is_taken_down_draws_nothing() -> None:
    app = screen(fleet(8))
    async with app.run_test(size=(120, 40)):
        assert app.rows.count()
    app.draw()
    app.action_whole()
