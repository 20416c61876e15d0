"""What an API server may do to a request, once each, for every sink that has to outlast it."""

from tests.support.fakes.api_server import Trouble

NOW = "Sun, 06 Nov 1994 08:49:37 GMT"
SOON = "Sun, 06 Nov 1994 08:49:38 GMT"
TROUBLES = [
    Trouble(500, method="GET"),
    Trouble(429, {"Retry-After": "1"}, method="GET"),
    Trouble(reset=True, method="GET"),
    Trouble(200, body="{", method="GET"),
    Trouble(429, {"Retry-After": "1"}),
    Trouble(500),
    Trouble(409),
    Trouble(410),
    Trouble(503, {"Retry-After": SOON, "Date": NOW}),
    Trouble(502, body="<html>bad gateway</html>"),
    Trouble(504),
    Trouble(401),
    Trouble(reset=True),
    Trouble(cut=True, after=True),
    Trouble(200, body="\x00\xff garbage"),
    Trouble(200, body='{"metadata":"none"}'),
    Trouble(torn=True),
    Trouble(drip_s=0.02),
    Trouble(408),
]
"""Each is followed by a request that is served: trouble after trouble is waited out ever longer."""


def played() -> list[Trouble]:
    """For ``FakeApi.trouble``."""
    return [one for bad in TROUBLES for one in (bad, Trouble(method=bad.method))]
