"""What is left of an installation when it is removed as docs/kubernetes.md says, on the real API server."""

import re
import shlex

from tests.support.deploy.manifests import KUSTOMIZE, ROOT, kustomize, of_kind
from tests.support.servers.kube.client import Object
from tests.support.servers.kube.server import Kube

GUIDE = (ROOT / "docs/kubernetes.md").read_text()


def without_helm() -> list[str]:
    """The guide's command, with the base in place of the user's overlay."""
    (line,) = re.findall(r"kubectl (delete -k … .*)", GUIDE.partition("## Remove it")[2])
    return [str(KUSTOMIZE / "base") if word == "…" else word for word in shlex.split(line, comments=True)]


def told(thing: Object) -> str:
    """As kubectl names it: ``deployment.apps "x"``."""
    group = thing["apiVersion"].rpartition("/")[0]
    return f'{thing["kind"].lower()}{"." * bool(group)}{group} "{thing["metadata"]["name"]}"'


def test_without_helm_all_goes_but_the_records(kube_server: Kube) -> None:
    kube_server.start()
    said = kube_server.admin.kubectl(*without_helm(), "--dry-run=client").splitlines()
    things = kustomize(KUSTOMIZE / "base")
    records = of_kind(things, "PersistentVolumeClaim")
    assert f"delete pvc {records['metadata']['name']} " in GUIDE
    gone = {line.removesuffix(" deleted (dry run)") for line in said}
    assert gone == {told(one) for one in things if one is not records}
