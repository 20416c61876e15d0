"""The gate to Prometheus: raw samples of series, and its errors in words that help."""

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from urllib3.util.retry import Retry

from collectors.prometheus.series import ScrapedSeries, parse_matrix, parse_vector, without_replicas
from contract.settings.groups import PrometheusSettings

_MESSAGE = 200


class QueryError(Exception):
    """Prometheus did not answer a query, or not with samples. The text says why, and what may help."""


class Prometheus:
    """One Prometheus. A user and a password may be in its URL; they are never shown."""

    def __init__(self, settings: PrometheusSettings) -> None:
        url = settings.prometheus or ""
        parts = urlsplit(url)
        self.place = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
        session = requests.Session()
        session.verify = settings.prometheus_ca or True
        if settings.prometheus_token:
            session.auth = _Bearer(settings.prometheus_token)
        elif settings.prometheus_username and settings.prometheus_password:
            session.auth = (settings.prometheus_username, settings.prometheus_password)
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

    def close(self) -> None:
        """Give the connections back."""
        self._connection.close()

    def _ask(
        self, query: str, deadline_s: float, parse: Callable[[Any], list[ScrapedSeries]]
    ) -> list[ScrapedSeries]:
        timeout_s = max(1, round(deadline_s - time.monotonic()))
        try:
            return without_replicas(parse(self._connection.custom_query(query, timeout=timeout_s)))
        except PrometheusApiClientException as error:
            raise QueryError(self._refused(str(error))) from error
        except requests.exceptions.SSLError as error:
            where = "DUTYCYCLE_PROMETHEUS_CA is the file with the CA that signed its certificate"
            raise QueryError(f"{self.place}: no TLS: {_root(error)}: {where}") from error
        except requests.Timeout as error:
            raise QueryError(f"{self.place} did not answer within {timeout_s} s") from error
        except requests.exceptions.JSONDecodeError as error:
            raise QueryError(self._no_prometheus("its answer is no JSON")) from error
        except requests.RequestException as error:
            raise QueryError(f"{self.place} does not answer: {_root(error)}") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise QueryError(self._no_prometheus("its answer holds no samples")) from error

    def _refused(self, text: str) -> str:
        """``text`` is the client's: ``HTTP Status Code 401 (b'…')``."""
        status = next((word for word in text.split() if word.isdigit()), "")
        if status in ("401", "403"):
            where = "DUTYCYCLE_PROMETHEUS_USERNAME and _PASSWORD(_FILE), or DUTYCYCLE_PROMETHEUS_TOKEN(_FILE)"
            return f"{self.place} refuses the credentials (HTTP {status}): give {where}"
        if status == "404":
            return self._no_prometheus("HTTP 404")
        return f"{self.place}: {text[:_MESSAGE]}"

    def _no_prometheus(self, why: str) -> str:
        return f"{self.place} is no Prometheus ({why}): DUTYCYCLE_PROMETHEUS is the URL above /api/v1"


class _Bearer(requests.auth.AuthBase):
    """Sends a token with each request, and lets no ``.netrc`` replace it."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _root(error: BaseException) -> str:
    """The innermost cause: what wraps it repeats the whole query."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(error)[:_MESSAGE] or type(error).__name__
