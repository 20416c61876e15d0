"""The gate to Prometheus: raw samples of series, and its errors in words that help."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from urllib3.util.retry import Retry

from collectors.prometheus.series import ScrapedSeries, parse_matrix, parse_vector, without_replicas
from dutycycle.contract.settings.groups import PrometheusSettings
from dutycycle.contract.settings.secret import authorization

_MESSAGE = 200
_BUSY = ("408", "429", "500", "502", "503", "504")
_LIMITS = ("too many", "exceed", "timeout", "timed out", "limit")
"""What Prometheus, Thanos and Mimir say of a query that was too much."""


class QueryError(Exception):
    """Prometheus did not answer a query, or not with samples. The text says why, and what may help."""


class AwayError(QueryError):
    """It does not answer now: the same query may be answered later."""


class TooMuchError(QueryError):
    """It did not finish in time, or within its limits: a smaller query may be answered."""


class Prometheus:
    """One Prometheus. A user and a password may be in its URL; they are never shown."""

    def __init__(self, settings: PrometheusSettings) -> None:
        url = settings.prometheus or ""
        parts = urlsplit(url)
        self.place = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
        session = requests.Session()
        session.verify = settings.prometheus_ca or True
        if settings.prometheus_token or settings.prometheus_username:
            session.auth = _Credentials(settings)
        # A query that failed is asked again at the next tick: repeats inside a tick would only make it late.
        self._connection = PrometheusConnect(url, retry=Retry(0), session=session)

    def samples(self, selector: str, seconds: float, deadline_s: float) -> list[ScrapedSeries]:
        """Every sample of the last ``seconds``, as it was scraped; ``deadline_s`` is monotonic.

        An instant query of a range: unlike an instant vector it keeps the samples' own timestamps.
        """
        return self._ask(f"{selector}[{round(seconds * 1000)}ms]", deadline_s, parse_matrix)

    def now(self, selector: str, deadline_s: float) -> list[ScrapedSeries]:
        """The series that are there now, each with its value now."""
        return self._ask(selector, deadline_s, parse_vector)

    def history(
        self, selector: str, start_ms: int, end_ms: int, step_s: int | None, timeout_s: int
    ) -> list[ScrapedSeries]:
        """Every sample from ``start_ms`` to ``end_ms``, as it was scraped.

        With ``step_s`` the newest of each step, with the step's end as its time. A step without a sample has
        none: unlike an instant vector, ``last_over_time`` looks no further back.
        """
        if step_s is None:
            query = f"{selector}[{end_ms - start_ms}ms]"
            params = {"time": f"{end_ms / 1000:.3f}"}
            ask = partial(self._connection.custom_query, query, params, timeout=timeout_s)
        else:
            query = f"last_over_time({selector}[{step_s}s])"
            start, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (start_ms, end_ms))
            ask = partial(
                self._connection.custom_query_range, query, start, end, str(step_s), timeout=timeout_s
            )
        return without_replicas(self._explained(ask, parse_matrix, timeout_s))

    def close(self) -> None:
        """Give the connections back."""
        self._connection.close()

    def _ask(
        self, query: str, deadline_s: float, parse: Callable[[Any], list[ScrapedSeries]]
    ) -> list[ScrapedSeries]:
        timeout_s = max(1, round(deadline_s - time.monotonic()))
        ask = partial(self._connection.custom_query, query, timeout=timeout_s)
        return without_replicas(self._explained(ask, parse, timeout_s))

    def _explained(
        self, ask: Callable[[], Any], parse: Callable[[Any], list[ScrapedSeries]], timeout_s: int
    ) -> list[ScrapedSeries]:
        try:
            return parse(ask())
        except PrometheusApiClientException as error:
            raise self._refused(str(error)) from error
        except requests.exceptions.SSLError as error:
            where = "DUTYCYCLE_PROMETHEUS_CA is the file with the CA that signed its certificate"
            raise QueryError(f"{self.place}: no TLS: {_root(error)}: {where}") from error
        except requests.Timeout as error:
            raise TooMuchError(f"{self.place} did not answer within {timeout_s} s") from error
        except requests.exceptions.JSONDecodeError as error:
            raise QueryError(self._no_prometheus("its answer is no JSON")) from error
        except requests.RequestException as error:
            raise AwayError(f"{self.place} does not answer: {_root(error)}") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise QueryError(self._no_prometheus("its answer holds no samples")) from error

    def _refused(self, text: str) -> QueryError:
        """``text`` is the client's: ``HTTP Status Code 401 (b'…')``."""
        status = next((word for word in text.split() if word.isdigit()), "")
        if status in ("401", "403"):
            where = "DUTYCYCLE_PROMETHEUS_USERNAME and _PASSWORD(_FILE), or DUTYCYCLE_PROMETHEUS_TOKEN(_FILE)"
            return QueryError(f"{self.place} refuses the credentials (HTTP {status}): give {where}")
        if status == "404":
            return QueryError(self._no_prometheus("HTTP 404"))
        is_limit = status in ("400", "422", "503") and any(word in text for word in _LIMITS)
        kind = TooMuchError if is_limit else AwayError if status in _BUSY else QueryError
        return kind(f"{self.place}: {text[:_MESSAGE]}")

    def _no_prometheus(self, why: str) -> str:
        return f"{self.place} is no Prometheus ({why}): DUTYCYCLE_PROMETHEUS is the URL above /api/v1"


class _Credentials(requests.auth.AuthBase):
    """Sends them with each request, as they are then, and lets no ``.netrc`` replace them."""

    def __init__(self, settings: PrometheusSettings) -> None:
        self._given = settings.prometheus_username, settings.prometheus_password, settings.prometheus_token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if header := authorization(*self._given):
            request.headers["Authorization"] = header
        return request


def _root(error: BaseException) -> str:
    """The innermost cause: what wraps it repeats the whole query."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(error)[:_MESSAGE] or type(error).__name__
