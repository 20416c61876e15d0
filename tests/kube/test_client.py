"""What goes wrong below HTTP is told in the words of the system and of OpenSSL, and of nobody around them."""

import socket
import ssl

import aiohttp
import pytest

from kube.client import cause


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
