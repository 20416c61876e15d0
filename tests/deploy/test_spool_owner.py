"""The init container that gives the spool on the node to the collector's user, run as the chart runs it.

On the real file system, with no capability but those of the chart. It takes root to begin with.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.deploy.manifests import Object, pod_specs, render

DEFAULT: Object = {}
OF_POD_RESOURCES: Object = {"collector": {"podResources": {"enabled": True}}}
GROUP = 10001

AS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv, to give up capabilities"
)


def run_init_container(values: Object, folder: Path) -> int:
    """What the chart runs before the collector, on ``folder``; answers with the collector's user."""
    spec = pod_specs(render(values))["collector"]
    (init,) = spec["initContainers"]
    pod, own = spec["securityContext"], init["securityContext"]
    added = [f"+{one.lower()}" for one in own["capabilities"]["add"]]
    as_there = [
        "setpriv", f"--reuid={own['runAsUser']}", f"--regid={pod['runAsGroup']}", "--clear-groups",
        "--inh-caps=-all", "--bounding-set=" + ",".join(["-all", *added]), "--no-new-privs", "--",
    ]  # fmt: skip
    command = [word.replace("/spool", str(folder)) for word in init["command"]]
    done = subprocess.run([*as_there, *command], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return int(pod["runAsUser"])


def test_all_that_is_in_the_folder_goes_to_the_collector_s_user() -> None:
    for values, user in ((DEFAULT, 10001), (OF_POD_RESOURCES, 0)):
        spec = pod_specs(render(values))["collector"]
        assert spec["securityContext"]["runAsUser"] == user
        assert f"chown -R {user}:{GROUP} /spool" in " ".join(spec["initContainers"][0]["command"])


@AS_ROOT
@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_the_files_of_the_user_before_belong_to_the_one_of_now(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(0o755)
    folder, foreign = tmp_path / "spool-of-node", tmp_path / "foreign"
    folder.mkdir()
    foreign.touch()
    users = []
    for values in (DEFAULT, OF_POD_RESOURCES, OF_POD_RESOURCES, DEFAULT, DEFAULT):
        user = run_init_container(values, folder)
        assert {(one.stat().st_uid, one.stat().st_gid) for one in (folder, *folder.iterdir())} == {
            (user, GROUP)
        }
        users.append(user)
        for name in ("spool.db", "spool.db-wal", "lock"):  # as a collector of this user makes them
            (folder / name).touch(mode=0o600)
            os.chown(folder / name, user, GROUP)
        folder.chmod(mode)
    assert len(set(users)) == 2
    (folder / "link").symlink_to(foreign)
    run_init_container(DEFAULT, folder)
    assert foreign.stat().st_uid == 0
