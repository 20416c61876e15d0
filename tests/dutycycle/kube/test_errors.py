"""What an answer that is no success means, and how long it asks to wait."""

import pytest

from dutycycle.kube.errors import (
    BusyError,
    GoneError,
    NotServedError,
    RefusedError,
    error_of_answer,
    retry_after_s,
)

ERRORS: dict[int, tuple[type[Exception], float | None, bool]] = {
    404: (NotServedError, None, False),
    403: (RefusedError, None, False),
    422: (RefusedError, None, False),
    401: (BusyError, 7, True),
    409: (BusyError, 7, False),
    410: (BusyError, 7, False),
    429: (BusyError, 7, True),
    500: (BusyError, 7, False),
    503: (BusyError, 7, True),
    504: (BusyError, 7, False),
}


@pytest.mark.parametrize(("status", "expected"), ERRORS.items(), ids=map(str, ERRORS))
def test_what_a_status_means(status: int, expected: tuple[type[Exception], float | None, bool]) -> None:
    error = error_of_answer(status, {"Retry-After": "7"}, b'{"message":"so\\nit is"}')
    kind, retry_after_s, everything = expected
    assert type(error) is kind
    assert str(error) == f"{status}: so it is"
    if isinstance(error, BusyError):
        assert (error.retry_after_s, error.everything) == (retry_after_s, everything)


def test_an_object_that_is_not_there_is_named_and_a_path_that_is_not_served_is_not() -> None:
    gone = b'{"message":"pods \\"a\\" not found","details":{"name":"a","kind":"pods"}}'
    assert type(error_of_answer(404, {}, gone)) is GoneError
    for unserved in (b"404 page not found\n", b'{"message":"could not find","details":{}}', b"[]"):
        assert type(error_of_answer(404, {}, unserved)) is NotServedError


SUN = "Sun, 06 Nov 1994 08:49:37 GMT"
WAITS: dict[str, tuple[dict[str, str], float | None]] = {
    "seconds": ({"Retry-After": "7"}, 7),
    "a date, by the server's own clock": (
        {"Retry-After": "Sun, 06 Nov 1994 08:51:07 GMT", "Date": SUN}, 90,
    ),
    "a date that is over": ({"Retry-After": "Sun, 06 Nov 1994 08:00:00 GMT", "Date": SUN}, 0),
    "far too long": ({"Retry-After": "999999"}, 600),
    "a date far away": ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT", "Date": SUN}, 600),
    "a date without one to compare": ({"Retry-After": SUN}, None),
    "nothing": ({}, None),
    "empty": ({"Retry-After": ""}, None),
    "a word": ({"Retry-After": "soon", "Date": SUN}, None),
    "negative": ({"Retry-After": "-1", "Date": SUN}, None),
    "a digit that is none": ({"Retry-After": "²"}, None),
}  # fmt: skip


@pytest.mark.parametrize(("headers", "expected"), WAITS.values(), ids=WAITS.keys())
def test_how_long_to_wait(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_s(headers) == expected
    error = error_of_answer(429, headers, b"")
    assert isinstance(error, BusyError)
    assert error.retry_after_s == expected
