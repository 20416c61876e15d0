"""The pace of requests, and the words for what goes wrong below HTTP: the system's and OpenSSL's own."""

import socket
import ssl

import aiohttp
import pytest

from dutycycle.kube.client import TokenBucket, cause


def not_verified() -> ssl.SSLError:
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
    error.verify_message = "Hostname mismatch, certificate is not valid for 'elsewhere.org'."
    return error


def no_tls() -> ssl.SSLError:
    error = ssl.SSLError(1, "[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca (_ssl.c:2580)")
    error.reason = "TLSV1_ALERT_UNKNOWN_CA"
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (not_verified(), "Hostname mismatch, certificate is not valid for 'elsewhere.org'"),
        (no_tls(), "TLSV1_ALERT_UNKNOWN_CA"),
        (OSError(111, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (aiohttp.ServerDisconnectedError(), "Server disconnected"),
        (
            aiohttp.ClientPayloadError("Response payload\n is not completed."),
            "Response payload is not completed",
        ),
        (OSError(), "OSError"),
    ],
)
def test_of_a_failure_only_the_reason_is_told(error: Exception, words: str) -> None:
    assert cause(error) == words


def test_turns_are_given_in_order_and_a_pause_is_enough_for_two_seconds() -> None:
    bucket = TokenBucket(10)
    assert [bucket.turn(100.0) for _ in range(20)] == [0.0] * 20
    assert [round(bucket.turn(100.0), 3) for _ in range(3)] == [0.1, 0.2, 0.3]
    assert bucket.turn(100.5) == 0.0
    assert sum(bucket.turn(1000.0) == 0.0 for _ in range(100)) in (19, 20)  # tenths do not add up exactly
