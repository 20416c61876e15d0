"""Runs ``dutycycle remove``: removes from a cluster what was made there at run time."""

import argparse
import asyncio

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.settings.groups import Settings
from dutycycle.kube.client import Limits
from dutycycle.kube.errors import GoneError, KubeError
from dutycycle.kube.objects import connect
from dutycycle.kube.references import ObjectRef
from dutycycle.process import print_remark
from dutycycle.words import listed
from sinks.removal import Removal, remove

EXAMPLE = "dutycycle remove --dry-run\ndutycycle remove --namespace team-a"
SETTINGS = ("annotation_prefix", "annotation_rate")
_NOTE = "a sink or webhook that still runs makes them again: stop it first, or set DUTYCYCLE_ANNOTATIONS=off"
_SHOWN_KEYS = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to do, and where."""
    parser.description = (
        "Remove every annotation with our prefix from nodes, pods and owners of pods, but those by which "
        f"users ask for a trial; and our PriorityClasses, Leases and Events. Topics stay; {_NOTE}."
    )
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        help="only in this namespace: no annotation of a node, no PriorityClass (default: everywhere)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Do it; 1 if something could not be done."""
    done = asyncio.run(_remove(args, settings))
    for failure in done.failures:
        print_remark(f"dutycycle: {failure}")
    verb = "would remove" if args.dry_run else "removed"
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(done.objects.items()))
    made = "".join(f"; {count} {kind}" for kind, count in sorted(done.deleted.items()))
    total = f"{verb} {done.keys} annotations from {sum(done.objects.values())} objects"
    print(total + (f": {kinds}" if kinds else "") + made)  # noqa: T201
    if (done.keys or done.deleted) and not args.dry_run:
        print_remark(f"dutycycle: {_NOTE}")
    return 1 if done.failures else 0


async def _remove(args: argparse.Namespace, settings: Settings) -> Removal:
    limits = Limits(requests_per_s=settings.annotation_rate)
    server = await connect("on", asked_by="remove", limits=limits, user_agent="dutycycle-remove")
    assert server is not None  # noqa: S101 - "on" finds one, or raises
    try:
        # Nothing found in a namespace that is not there would read as a success. To the API server one
        # without a name, as of a variable that is not set, is all of them.
        if args.namespace == "":
            raise DutycycleError("--namespace: is empty: name one, or leave the flag out for all")
        refusal: KubeError | None = None
        if args.namespace is not None:
            try:
                await server.metadata(ObjectRef("v1", "Namespace", args.namespace))
            except GoneError as error:
                raise DutycycleError(f"there is no namespace {args.namespace}: see --namespace") from error
            except KubeError as error:  # a role that may list in it need not allow to read it
                refusal = error

        def say(name: str, keys: list[str]) -> None:
            if args.dry_run:  # what is done is counted at the end
                print(f"{name}: {listed(sorted(keys), _SHOWN_KEYS)}" if keys else name)  # noqa: T201

        done = await remove(server, settings.annotation_prefix, args.namespace, say, dry_run=args.dry_run)
    finally:
        await server.close()
    if refusal is not None and not (done.objects or done.deleted or done.failures):
        why = f"whether there is a namespace {args.namespace} is not known: {refusal}"
        print_remark(f"dutycycle: nothing was found, and {why}")
    return done
