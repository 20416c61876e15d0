"""Asks the API server for the plugin: one request after the other, and errors as lines for its user.

It uses what kubectl uses: the kubeconfig with its contexts, or the service account of a pod.
"""

import asyncio
import re
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from dutycycle.contract.errors import DutycycleError
from dutycycle.kube.client import Limits
from dutycycle.kube.config import Impersonation, UnusableConfigError, of_user
from dutycycle.kube.discovery import NODE, POD, Kind
from dutycycle.kube.errors import BusyError, KubeError, explain
from dutycycle.kube.heartbeat import LEASE
from dutycycle.kube.objects import TableRow, opened
from dutycycle.kube.references import Metadata, ObjectRef

_LIMITS = Limits(answer_s=30.0)
_USER = re.compile(r'User "[^"]*"')
_NO_NODE = "<none>"
T = TypeVar("T")


class KubectlError(DutycycleError):
    """Says in one line what the user has to know instead of an answer."""


class ForbiddenError(KubectlError):
    """Says that the API server does not let this user do something: ``what``, such as ``list pods``.

    ``user`` is whom the server takes the user for: ``User "jane"``; empty where it did not say.
    """

    def __init__(self, what: str, user: str) -> None:
        whom = f", for {user}" if user else ""
        super().__init__(
            f"you may not {what}: ask for that permission, which the ClusterRole dutycycle-reader has{whom}"
        )
        self.user = user


class FailedError(KubectlError):
    """Says that the API server failed at this, such as a kind whose conversion webhook is away: other kinds
    may do."""


class NotThereError(KubectlError):
    """Says that there is no such object, or no such kind."""


@dataclass(frozen=True, slots=True)
class ListedPod:
    """Holds a pod; ``node`` is None while it waits for one."""

    meta: Metadata
    node: str | None
    has_ended: bool


class Api:
    """Asks one API server, to be closed by ``with``. Raises ``KubectlError``."""

    def __init__(
        self,
        kubeconfig: str | None = None,
        context: str | None = None,
        act_as: Impersonation | None = None,
    ) -> None:
        self._runner = asyncio.Runner()
        try:
            source = of_user(kubeconfig, context, act_as)
            self._server = self._runner.run(opened(source, limits=_LIMITS, user_agent="kubectl-dutycycle"))
        except UnusableConfigError as error:
            self._runner.close()
            raise KubectlError(
                f"no access to a cluster: {error}; see --kubeconfig, KUBECONFIG and --context"
            ) from error
        self.namespace = self._server.namespace

    def __enter__(self) -> "Api":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._server.close())
        self._runner.close()

    def list(self, kind: Kind, namespace: str | None, selector: str | None = None) -> list[Metadata]:
        """Return all objects of a kind in a namespace, or in all."""

        async def every() -> list[Metadata]:
            return [item async for item in self._server.each(kind, namespace, selector)]

        return self._ask(every(), f"list {kind}{scope_of(kind, namespace)}")

    def read(self, kind: Kind, namespace: str | None, name: str) -> Metadata:
        """Return one object."""
        ref = ObjectRef(kind.api_version, kind.name, name, namespace)
        return self._ask(self._server.metadata(ref), f"get {kind}{scope_of(kind, namespace)}")

    def pods(self, namespace: str | None, selector: str | None = None) -> Sequence[ListedPod]:
        """Return all pods, with the nodes that they run on."""

        async def every() -> Sequence[ListedPod]:
            return [_pod_row(row) async for row in self._server.rows(POD, namespace, selector)]

        return self._ask(every(), f"list {POD}{scope_of(POD, namespace)}")

    def pod(self, namespace: str, name: str) -> ListedPod:
        """Return one pod."""

        async def one() -> ListedPod:
            ref = ObjectRef(POD.api_version, POD.name, name, namespace)
            return _pod_row(await self._server.row(ref))

        return self._ask(one(), f"get {POD}{scope_of(POD, namespace)}")

    def leases(self, selector: str) -> Sequence[Mapping[str, Any]]:
        """Return the Leases of these labels, in all namespaces."""

        async def every() -> Sequence[Mapping[str, Any]]:
            return [lease async for lease in self._server.whole(LEASE, None, selector)]

        return self._ask(every(), f"list {LEASE}{scope_of(LEASE, None)}")

    def kinds(self) -> tuple[Kind, ...]:
        """Return the kinds that are served below a namespace."""
        kinds = self._ask(self._server.kinds.every(), "ask which kinds there are")
        return tuple(kind for kind in kinds if kind.namespaced)

    def _ask(self, asking: Coroutine[Any, Any, T], what: str) -> T:
        """Return the answer. Raises the error that a user reads: ``what`` was wanted, this came instead."""
        try:
            return self._runner.run(asking)
        except KubeError as error:
            if error.reason == "403" and "cannot impersonate" in error.detail:
                raise KubectlError(f"you may not act as somebody else: {error.detail}") from error
            if error.reason == "403":
                user = _USER.search(error.detail)
                raise ForbiddenError(what, user[0] if user else "") from error
            if error.reason == "404":
                raise NotThereError(error.detail) from error
            words = explain(error, what, self._server.address)
            alone = isinstance(error, BusyError) and not error.everything and error.reason.isdecimal()
            raise (FailedError(words) if alone else KubectlError(words)) from error


def _pod_row(row: TableRow) -> ListedPod:
    node = row.cells.get("Node")
    is_name = isinstance(node, str) and node != _NO_NODE
    return ListedPod(row.metadata, node if is_name else None, row.is_completed)


def scope_of(kind: Kind, namespace: str | None) -> str:
    """Return ``in namespace x``, with a space before; empty where namespaces have nothing to do with it."""
    if kind == NODE:
        return ""
    return f" in namespace {namespace}" if namespace else " in the whole cluster"
