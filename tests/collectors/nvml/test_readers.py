"""GPUs are read side by side, and what one of them raises is its own."""

import threading
from functools import partial

import pytest

from collectors.nvml.readers import THREADS, Readers


def refuse(number: int) -> int:
    raise ValueError(number)


@pytest.mark.parametrize("count", [0, 1, 2, 3 * THREADS])
def test_outcomes_are_in_the_order_of_the_calls(count: int) -> None:
    readers: Readers[int] = Readers()
    calls = [partial(refuse if number == 1 else lambda number: 2 * number, number) for number in range(count)]
    for _ in range(3):
        outcomes = readers.run(calls)
        wanted = [f"ValueError({number})" if number == 1 else repr(2 * number) for number in range(count)]
        assert [repr(one) for one in outcomes] == wanted
    readers.close()


def test_calls_run_side_by_side_in_few_threads() -> None:
    """All threads meet at the barrier: with fewer of them side by side it would break."""
    readers: Readers[str] = Readers()
    barrier = threading.Barrier(THREADS, timeout=30)

    def meet() -> str:
        barrier.wait()
        return threading.current_thread().name

    names = readers.run([meet] * (2 * THREADS))
    assert len(set(map(str, names))) == THREADS
    readers.close()


def test_threads_end_when_it_is_closed() -> None:
    readers: Readers[threading.Thread] = Readers()
    threads = {
        one for one in readers.run([threading.current_thread] * 8) if isinstance(one, threading.Thread)
    }
    readers.close()
    for one in threads:
        one.join(120)
    assert not any(one.is_alive() for one in threads)
