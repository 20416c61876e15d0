"""Is the gate to Prometheus: raw samples of series, and its errors in words that help."""

import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from urllib3.util.retry import Retry

from collectors.prometheus.series import ScrapedSeries, parse_matrix, parse_vector, without_replicas
from dutycycle.contract.settings.groups import PrometheusSettings
from dutycycle.contract.settings.secret import authorization, headers_now

T = TypeVar("T")
_MESSAGE = 200
_NO_TENANT = re.compile(r"org ?id|tenant", re.IGNORECASE)
"""What Mimir and Cortex say without a header that names the tenant."""
_BUSY = ("408", "429", "500", "502", "503", "504")
_OUR_FAULT = ("bad_data", "execution", "not_found", "not_acceptable")
"""Kinds of errors that Prometheus gives to the same query again and again."""
_LIMITS = ("too many", "exceed", "timeout", "timed out", "limit")
"""What Prometheus, Thanos and Mimir say of a query that was too much."""


class QueryError(Exception):
    """Says that Prometheus did not answer a query, or not with samples: why, and what may help."""


class AwayError(QueryError):
    """Says that it does not answer now: the same query may be answered later."""


class TooMuchError(QueryError):
    """Says that it did not finish in time, or within its limits: a smaller query may be answered."""


class Prometheus:
    """Asks one Prometheus. A user and a password may be in its URL; they are never shown."""

    def __init__(self, settings: PrometheusSettings) -> None:
        url = settings.prometheus or ""
        parts = urlsplit(url)
        self.place = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
        session = requests.Session()
        session.verify = settings.prometheus_ca or True
        session.auth = _Credentials(settings)
        session.hooks["response"].append(self._note_incomplete)
        label, _, cluster = (settings.prometheus_cluster or "").partition("=")
        self._matcher = f"{label}={json.dumps(cluster, ensure_ascii=False)}" if cluster else ""
        self._incomplete: list[str] = []
        self._error = ""
        """What the newest answer says of an error, though its HTTP status is that of a success."""
        # A query that failed is asked again at the next tick: repeats inside a tick would only make it late.
        self._connection = PrometheusConnect(url, retry=Retry(0), session=session)

    def samples(self, selector: str, seconds: float, deadline_s: float) -> list[ScrapedSeries]:
        """Return every sample of the last ``seconds``, as it was scraped; ``deadline_s`` is monotonic.

        An instant query of a range: unlike an instant vector it keeps the samples' own timestamps.
        """
        return self._ask(f"{selector}[{round(seconds * 1000)}ms]", deadline_s, parse_matrix)

    def now(self, selector: str, deadline_s: float) -> list[ScrapedSeries]:
        """Return the series that are there now, each with its value now."""
        return self._ask(selector, deadline_s, parse_vector)

    def history(
        self, selector: str, start_ms: int, end_ms: int, step_s: int | None, timeout_s: int
    ) -> list[ScrapedSeries]:
        """Return every sample from ``start_ms`` to ``end_ms``, as it was scraped.

        With ``step_s`` the newest of each step, with the step's end as its time. A step without a sample has
        none: unlike an instant vector, ``last_over_time`` looks no further back.
        """
        if step_s is None:
            query = f"{self._narrowed(selector)}[{end_ms - start_ms}ms]"
            params = {"time": f"{end_ms / 1000:.3f}"}
            ask = partial(self._connection.custom_query, query, params, timeout=timeout_s)
        else:
            query = f"last_over_time({self._narrowed(selector)}[{_within(step_s)}])"
            start, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (start_ms, end_ms))
            ask = partial(
                self._connection.custom_query_range, query, start, end, str(step_s), timeout=timeout_s
            )
        return without_replicas(self._with_names(self._explained(ask, parse_matrix, timeout_s)))

    def by_step(
        self, function: str, name: str, selector: str, start_ms: int, end_ms: int, step_s: int, timeout_s: int
    ) -> list[ScrapedSeries]:
        """Return one metric of a selector, as ``function`` (``avg_over_time``) makes it of the samples of
        each step.

        Prometheus drops the name of what it computes, so that each metric is a query.
        """
        named_selector = re.sub(r'__name__=~"[^"]*"', f'__name__=~"{name}"', self._narrowed(selector))
        start, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (start_ms, end_ms))
        query = f"{function}({named_selector}[{_within(step_s)}])"
        ask = partial(self._connection.custom_query_range, query, start, end, str(step_s), timeout=timeout_s)
        unique = without_replicas(self._explained(ask, parse_matrix, timeout_s))
        return [replace(of, labels={**of.labels, "__name__": name}) for of in unique]

    def help_texts(self, names: Iterable[str], timeout_s: int) -> dict[str, list[str]]:
        """Return the HELP texts of the exporters' metrics, as far as they are known there."""
        help_by_name: dict[str, list[str]] = {}
        for name in names:
            ask = partial(self._metadata, name, timeout_s)
            try:
                help_by_name[name] = self._explained(
                    ask, lambda of: [str(metadata["help"]) for metadata in of], timeout_s
                )
            except QueryError:  # not every one has them, and values tell units as well
                help_by_name[name] = []
        return help_by_name

    def incomplete(self) -> list[str]:
        """Return what the answers since the last call said of what they lack, such as a store of Thanos that
        is away; each text once."""
        texts, self._incomplete = list(dict.fromkeys(self._incomplete)), []
        return texts

    def close(self) -> None:
        """Give the connections back."""
        self._connection.close()

    def _metadata(self, name: str, timeout_s: int) -> Any:
        answer = self._connection._session.get(
            f"{self._connection.url}/api/v1/metadata", params={"metric": name}, timeout=timeout_s
        )
        return answer.json()["data"].get(name, []) if answer.status_code == 200 else []

    def _narrowed(self, query: str) -> str:
        """Return the query for one cluster, where one was given."""
        if not self._matcher:
            return query
        query = re.sub(r" or (\w+) ==", r" or \1{} ==", query)
        return re.sub(r",?\}", lambda end: f",{self._matcher}}}", query).replace("{,", "{")

    def _note_incomplete(self, response: requests.Response, *_: Any, **__: Any) -> None:
        """Note in a hook what an answer lacks: the client gives out the samples of an answer alone."""
        self._error = ""
        if not any(word in response.content for word in (b'"warnings"', b'"isPartial"', b'"error"')):
            return
        try:
            body = response.json()
        except (requests.exceptions.JSONDecodeError, RecursionError):
            return  # whoever asked says so
        if isinstance(body, dict):
            if response.ok and body.get("status") == "error":
                self._error = " ".join(str(body.get(name) or "") for name in ("errorType", "error")).strip()
            texts = [str(text) for text in body.get("warnings") or ()]
            texts += ["the answer is partial (isPartial)"] if body.get("isPartial") is True else []
            # Remarks on the query itself are no sign of missing samples.
            self._incomplete += [text[:_MESSAGE] for text in texts if not text.startswith("PromQL ")]

    def _ask(
        self, query: str, deadline_s: float, parse: Callable[[Any], list[ScrapedSeries]]
    ) -> list[ScrapedSeries]:
        timeout_s = max(1, round(deadline_s - time.monotonic()))
        ask = partial(self._connection.custom_query, self._narrowed(query), timeout=timeout_s)
        return without_replicas(self._with_names(self._explained(ask, parse, timeout_s)))

    def _with_names(self, series: list[ScrapedSeries]) -> list[ScrapedSeries]:
        """Return the series that say of which metric they are. Raises ``QueryError`` where none does."""
        named = [scraped for scraped in series if scraped.labels.get("__name__")]
        if series and not named:
            raise QueryError(
                f"{self.place} answers with series that have no name (__name__): a proxy between takes it "
                "away, or with --step the server does, and without --step it does not"
            )
        return named

    def _explained(self, ask: Callable[[], Any], parse: Callable[[Any], list[T]], timeout_s: int) -> list[T]:
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
            if error.doc.lstrip().startswith("{"):
                raise AwayError(
                    f"{self.place} cut its answer off after {len(error.doc)} characters"
                ) from error
            raise QueryError(self._no_prometheus("its answer is no JSON")) from error
        except requests.RequestException as error:
            raise AwayError(f"{self.place} does not answer: {_root(error)}") from error
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            if self._error:  # as a proxy between us and Prometheus passes it on
                is_limit = any(word in self._error for word in _LIMITS)
                lasts = self._error.startswith(_OUR_FAULT)
                kind = TooMuchError if is_limit else QueryError if lasts else AwayError
                raise kind(f"{self.place}: {self._error[:_MESSAGE]}") from error
            raise QueryError(self._no_prometheus("its answer holds no samples")) from error

    def _refused(self, text: str) -> QueryError:
        """Return the error of a refusal. ``text`` is the client's: ``HTTP Status Code 401 (b'…')``."""
        status = next((word for word in text.split() if word.isdigit()), "")
        if status in ("401", "403") and _NO_TENANT.search(text):
            where = "DUTYCYCLE_PROMETHEUS_HEADERS='X-Scope-OrgID: <tenant>'"
            return QueryError(
                f"{self.place} asks whose data it shall show (HTTP {status}, no tenant): give {where}"
            )
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


def _within(step_s: int) -> str:
    """Return the range of one step. Prometheus 2 counts a sample at its very beginning, which is the end of
    the step before."""
    return f"{1000 * step_s - 1}ms"


class _Credentials(requests.auth.AuthBase):
    """Sends them with each request, as they are then, and lets no ``.netrc`` replace them."""

    def __init__(self, settings: PrometheusSettings) -> None:
        self._given = settings.prometheus_username, settings.prometheus_password, settings.prometheus_token
        self._of_url = requests.utils.get_auth_from_url(settings.prometheus or "")
        self._headers = settings.prometheus_headers

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers.update(headers_now(self._headers))
        if header := authorization(*self._given):
            request.headers["Authorization"] = header
        elif any(self._of_url):
            requests.auth.HTTPBasicAuth(*self._of_url)(request)
        return request


def _root(error: BaseException) -> str:
    """Return the innermost cause: what wraps it repeats the whole query."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(error)[:_MESSAGE] or type(error).__name__
