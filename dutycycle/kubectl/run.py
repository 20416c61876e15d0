"""Runs what the command line asks for, once it is known that the API server is needed."""

import argparse
import os

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import PREFIX
from dutycycle.contract.settings.load import load
from dutycycle.kube.config import Impersonation
from dutycycle.kube.discovery import NODE, POD
from dutycycle.kubectl import output, top
from dutycycle.kubectl.api import Api, scope_of
from dutycycle.kubectl.jobs import Jobs, object_name
from dutycycle.kubectl.nodes import show_health
from dutycycle.kubectl.output import Answer
from dutycycle.kubectl.peaks import show_peaks
from dutycycle.kubectl.why import show_why

_LISTED = {"pods": POD, "nodes": NODE}
_TOP = {"pods": top.top_pods, "nodes": top.top_nodes, "jobs": top.top_jobs}


def run(args: argparse.Namespace) -> None:
    """Print the answer. Raises ``DutycycleError``."""
    with _prepared(args) as api:
        if args.command == "top":
            answer = _TOP[args.kind](api, args)
            if not answer.rows and not output.is_data(args.output):
                answer.remarks.append(_nothing(answer, args))
            output.print_answer(answer, args.output, headers=not args.no_headers)
        elif args.command == "peaks":
            show_peaks(api, args)
        elif args.command == "health":
            show_health(api, args)
        else:
            args.records = args.records or _setting("records")
            show_why(api, args)


def names(args: argparse.Namespace) -> list[str]:
    """Return what the command may be asked about: the names of pods, nodes or jobs. Raises
    ``DutycycleError``."""
    with _prepared(args) as api:
        what = {"why": "pods", "peaks": "jobs"}.get(args.command) or args.kind
        if what in _LISTED:
            return [str(meta["name"]) for meta in api.list(_LISTED[what], args.namespace)]
        return [str(job.meta["name"]) for job in Jobs(api, args.prefix).annotated(args.namespace, None)]


def _prepared(args: argparse.Namespace) -> Api:
    """Return the API server that is meant; fills in what was not given."""
    args.prefix = args.prefix or _setting("annotation_prefix")
    if args.namespace:
        object_name(args.namespace)
    if args.as_groups and not args.as_user:
        raise SettingError("--as-group needs --as: groups alone are nobody")
    act_as = Impersonation(args.as_user, tuple(args.as_groups)) if args.as_user else None
    api = Api(args.kubeconfig, args.context, act_as)
    if args.command == "top" and args.name is not None and (args.selector or args.all_namespaces):
        raise SettingError(f"{args.name!r}: a name stands without --selector and --all-namespaces")
    of_all = args.command == "top" and args.all_namespaces
    args.namespace = None if of_all else args.namespace or api.namespace
    return api


def _setting(name: str) -> str | None:
    """Return one setting by its field name. The others, and the host's name, are nothing to who looks at
    figures."""
    variable = PREFIX + name.upper()
    environ = {key: value for key, value in os.environ.items() if key in (variable, f"{variable}_FILE")}
    value: str | None = getattr(load(environ, {"node": "any"}), name)
    return value


def _nothing(answer: Answer, args: argparse.Namespace) -> str:
    """Tell why the table is empty, and what to look at."""
    where = scope_of(NODE if answer.what == "node" else POD, args.namespace)
    where += f" with the labels {args.selector}" if args.selector else ""
    if not answer.there:
        return f"no {answer.what}s{where}"
    is_narrow = args.namespace and answer.what != "node"
    hint = "is that their namespace?" if is_narrow else "do the collectors and sinks run?"
    return (
        f"no {answer.what}{where} carries {args.prefix}/ annotations: {hint} "
        "See `kubectl get pods -A -l app.kubernetes.io/part-of=dutycycle`"
    )
