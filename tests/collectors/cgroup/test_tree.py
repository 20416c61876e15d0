"""Which cgroups are reported: found in every hierarchy, none twice, the same from tick to tick."""

import os
import shutil
import struct
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.attribution.cgroup_path import CgroupKind
from collectors.attribution.processes import INCLUDED
from collectors.cgroup.changes import FolderChanges
from collectors.cgroup.mounts import find_hierarchies
from collectors.cgroup.tree import CgroupTree, FolderListing
from tests.support.data.fake_host import LAYOUTS, FakeHost, pod_path
from tests.support.examples import examples
from tests.support.processes.open_files import open_files

UID = "0f5ae1b4-2c9d-4b63-9a0b-6d0b1f4f7a11"
INNER = "11111111-2c9d-4b63-9a0b-6d0b1f4f7a11"
A, B, C = "ab" * 32, "0c" * 32, "d3" * 32
POD = pod_path("systemd", "burstable", UID, A)
INNER_POD = pod_path("cgroupfs", "besteffort", INNER, C)


def tree(host: FakeHost, containers: str = "all", limit: int = 2000) -> CgroupTree:
    return CgroupTree(find_hierarchies(str(host.root)), INCLUDED[containers], limit=limit)


def paths(host: FakeHost, containers: str = "all") -> list[str]:
    return [group.id.path for group in tree(host, containers).groups()]


def test_the_hierarchies_of_each_kind_of_host(tmp_path: Path) -> None:
    found = {}
    for layout in LAYOUTS:
        host = FakeHost(tmp_path / layout, layout)
        top = host.root / "sys/fs/cgroup"
        found[layout] = {
            str(Path(one.root).relative_to(top)): (one.version, one.controllers)
            for one in find_hierarchies(str(host.root))
        }
    assert found["v2"] == {".": (2, frozenset({"cpuset", "cpu", "io", "memory", "pids"}))}
    assert found["v1"] == {
        "cpu,cpuacct": (1, frozenset({"cpu", "cpuacct"})),
        "memory": (1, frozenset({"memory"})),
        "blkio": (1, frozenset({"blkio"})),
    }
    assert found["hybrid"] == {
        **{name: (1, frozenset({name})) for name in ("cpu", "cpuacct", "memory", "blkio")},
        "unified": (2, frozenset()),
    }


IO_TABLE = [
    # what counts at the root, the file that is read
    ({"throttle.io_service_bytes": 5}, "blkio.throttle.io_service_bytes"),
    ({"throttle.io_service_bytes": 5, "throttle.io_service_bytes_recursive": 5},
     "blkio.throttle.io_service_bytes_recursive"),
    ({"throttle.io_service_bytes": 0, "bfq.io_service_bytes": 5}, "blkio.bfq.io_service_bytes"),
    ({"throttle.io_service_bytes": 0, "bfq.io_service_bytes": 0}, None),
    ({}, None),
]  # fmt: skip


@pytest.mark.parametrize(("counts", "name"), IO_TABLE)
def test_v1_counts_io_in_one_of_several_files_or_not_at_all(
    tmp_path: Path, counts: dict[str, int], name: str | None
) -> None:
    host = FakeHost(tmp_path, "v1")
    root = tmp_path / "sys/fs/cgroup/blkio"
    (root / "blkio.throttle.io_service_bytes").unlink()
    for file, total in counts.items():
        (root / f"blkio.{file}").write_text(f"8:0 Read {total}\n8:0 Total {total}\nTotal {total}\n")
    found = [one.io_file for one in find_hierarchies(str(host.root)) if "blkio" in one.controllers]
    assert found == ([name] if name else [])


def test_nothing_is_mounted(tmp_path: Path) -> None:
    assert find_hierarchies(str(tmp_path)) == ()
    (tmp_path / "sys/fs/cgroup/memory").mkdir(parents=True)  # a mount point without a mount
    assert find_hierarchies(str(tmp_path)) == ()


BUSY, IDLE = (7,), ()
TREE_TABLE = [
    # goal, cgroups with their processes, setting, what is reported
    ("a pod's containers, by any setting",
     {POD: IDLE, INNER_POD: IDLE}, "pods", {POD, INNER_POD}),
    ("not what runs beside them in a pod",
     {POD: BUSY, POD.replace("cri-containerd", "crio-conmon"): BUSY}, "all", {POD}),
    ("other containers only when asked for",
     {POD: IDLE, f"/docker/{B}": IDLE, "/a.service": BUSY}, "pods", {POD}),
    ("containers, but not units",
     {POD: IDLE, f"/docker/{B}": IDLE, "/a.service": BUSY}, "containers", {POD, f"/docker/{B}"}),
    ("units and bare groups that run something",
     {"/a.slice/a.service": BUSY, "/a.slice/b.service": IDLE, "/c/d": BUSY, "/c/e": IDLE}, "all",
     {"/a.slice/a.service", "/c/d"}),
    ("a service whose processes are all in its own groups",
     {"/a.service": IDLE, "/a.service/init": BUSY, "/a.service/x/y": BUSY}, "all", {"/a.service"}),
    ("a slice only with processes of its own",
     {"/a.slice": BUSY, "/b.slice": IDLE, "/b.slice/b.scope": BUSY}, "all", {"/a.slice", "/b.slice/b.scope"}),
    ("leaves, not what holds them",
     {"/user@1.service": BUSY, "/user@1.service/app.slice/x.scope": BUSY, "/c": BUSY, "/c/d": BUSY}, "all",
     {"/user@1.service/app.slice/x.scope", "/c/d"}),
    ("a kind node through its pods",
     {f"/docker/{B}": IDLE, f"/docker/{B}/kubelet{INNER_POD}": IDLE}, "containers",
     {f"/docker/{B}/kubelet{INNER_POD}"}),
    ("a kind node as itself where only its own groups are below",
     {f"/docker/{B}": IDLE, f"/docker/{B}/system.slice/a.service": BUSY}, "all", {f"/docker/{B}"}),
    ("Docker in Docker through the inner one",
     {f"/docker/{B}": BUSY, f"/docker/{B}/docker/{C}": BUSY}, "containers", {f"/docker/{B}/docker/{C}"}),
    ("a pod as a whole, though it runs kind",
     {POD: IDLE, f"{POD}/kubelet{INNER_POD}": IDLE}, "pods", {POD, f"{POD}/kubelet{INNER_POD}"}),
    ("nothing", {}, "all", set()),
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("groups", "containers", "reported"), [row[1:] for row in TREE_TABLE], ids=[row[0] for row in TREE_TABLE]
)
def test_who_is_reported(
    tmp_path: Path, layout: str, groups: dict[str, tuple[int, ...]], containers: str, reported: set[str]
) -> None:
    host = FakeHost(tmp_path, layout)
    for path, pids in groups.items():
        host.put(path, pids=pids)
    found = paths(host, containers)
    assert set(found) == reported
    assert len(found) == len(reported)
    assert found == paths(host, containers)


def test_a_group_in_some_hierarchies_only_is_one_group(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "hybrid")
    host.put_in("memory", "/process/1", pids=(7,))
    host.put_in("cpu", "/process/1")
    host.put_in("blkio", "/process/2", pids=(8,))
    host.put_in("cpuacct", "/process/3")
    first, second = tree(host).groups()
    assert [one.hierarchy.controllers for one in first.own_folders] == [{"cpu"}, {"memory"}]
    assert [one.hierarchy.controllers for one in second.own_folders] == [{"blkio"}]


def test_a_container_at_two_paths_is_one_group(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "hybrid")
    host.put_in("memory", f"/system.slice/docker-{A}.scope")
    host.put_in("cpu", f"/docker/{A}")
    (only,) = tree(host).groups()
    assert len(only.own_folders) == 2


def test_a_process_that_we_cannot_see_is_one(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "v2")
    host.put("/a.service", pids=(0,))
    assert paths(host) == ["/a.service"]


def test_a_folder_made_anew_is_another_folder(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "v2")
    host.put(POD)
    of = tree(host)
    (before,) = of.groups()
    host.folders(POD)[0].rename(tmp_path / "kept")  # so that the file system cannot give its inode again
    host.put(POD)
    (after,) = of.groups()
    assert (before.key, before.own_folders == after.own_folders) == (after.key, False)


def test_pods_come_before_what_the_limit_leaves_out(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "v2")
    for path in ("/a", "/b", "/c.service", f"/docker/{B}", POD):
        host.put(path, pids=BUSY)
    of = tree(host, limit=3)
    assert [group.id.kind for group in of.groups()] == [CgroupKind.POD, CgroupKind.CONTAINER, CgroupKind.UNIT]
    assert of.left_out == 2


@pytest.fixture(params=["watched", "looked at"])
def watched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the kernel says what changes. A node may have used up its instances of inotify."""
    if request.param == "looked at":
        monkeypatch.setattr("collectors.cgroup.changes._library", SimpleNamespace())
    return bool(request.param == "watched")


def test_groups_come_and_go(tmp_path: Path, watched: bool) -> None:
    host = FakeHost(tmp_path, "v1")
    of = tree(host)
    assert of.groups() == []
    host.put(POD)
    assert [group.id.path for group in of.groups()] == [POD]
    host.remove("/kubepods.slice")
    assert of.groups() == []


def test_what_comes_in_one_hierarchy_alone_is_found_at_once(tmp_path: Path, watched: bool) -> None:
    host = FakeHost(tmp_path, "v1")
    host.put(POD)
    of = tree(host)
    for _ in range(30):
        assert len(of.groups()) == 1
    host.put_in("blkio", f"/docker/{B}")
    assert len(of.groups()) == 2


def test_what_comes_in_a_container_is_found_at_once(tmp_path: Path, watched: bool) -> None:
    host = FakeHost(tmp_path, "v1")
    host.put(POD)
    of = tree(host)
    for _ in range(30):
        (before,) = of.groups()
    host.put(f"{POD}/payload")
    assert len(of.groups()[0].folders) > len(before.folders)
    host.put(pod_path("systemd", "burstable", UID, B))
    assert len(of.groups()) == 2


def test_no_folder_is_looked_at_while_the_kernel_watches(
    tmp_path: Path, watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost(tmp_path, "v2")
    host.put(POD)
    of = tree(host)
    of.groups()
    look = Mock(side_effect=os.stat)
    monkeypatch.setattr(os, "stat", look)
    for _ in range(10):
        of.groups()
    assert look.called is not watched
    for _ in range(60):
        of.groups()
    assert look.called, "what is mounted from elsewhere may change without an event"


def test_more_events_than_the_kernel_keeps_are_a_change_of_every_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = FolderChanges()
    for number, name in enumerate("ab"):
        (tmp_path / name).mkdir()
        assert changes.watch(number, str(tmp_path / name))
    assert changes.drain() == set()
    (tmp_path / "b/c").mkdir()
    (tmp_path / "a/file").write_text("files are no folders")
    assert changes.drain() == {1}
    events, kernel = os.pipe()
    os.set_blocking(events, False)
    os.write(kernel, struct.pack("iIII", -1, 0x4000, 0, 0))  # an overflow
    with monkeypatch.context() as patch:
        patch.setattr(changes, "_fd", events)
        assert changes.drain() == {0, 1}
    os.close(events)
    os.close(kernel)
    changes.close()
    assert not changes.watch(0, str(tmp_path))


def test_a_folder_that_is_gone_is_not_watched(tmp_path: Path) -> None:
    changes = FolderChanges()
    assert not changes.watch(0, str(tmp_path / "gone"))
    assert not changes.watch(0, __file__), "a file is no folder"
    changes.close()


def test_a_group_in_all_hierarchies_is_found_at_once(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "v1")
    host.put(POD)
    of = tree(host)
    for seq in range(25):
        name = f"/docker/{seq:064x}"
        host.put(name)
        found = next(one for one in of.groups() if one.id.path == name)
        assert len(found.own_folders) == 3
        for _ in range(seq):
            of.groups()


def test_a_hierarchy_that_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "v2")
    of = tree(host)
    shutil.rmtree(tmp_path / "sys")
    with pytest.raises(OSError, match="sys/fs/cgroup"):
        of.groups()


def present(root: Path) -> dict[str, int]:
    return {f"/{one.relative_to(root)}": one.stat().st_ino for one in root.rglob("*") if one.is_dir()}


def test_nothing_is_listed_anew_while_nothing_changes(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "d").mkdir()
    listing = FolderListing(str(tmp_path))
    assert listing.refresh()
    assert not listing.refresh()
    (tmp_path / "a/file").write_text("x")
    assert not listing.refresh(), "files are no folders"


def test_one_leaves_as_another_comes(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    listing = FolderListing(str(tmp_path))
    listing.refresh()
    (tmp_path / "a/b").rename(tmp_path / "a/c")
    assert listing.refresh()
    assert listing.folders == present(tmp_path)


def test_a_folder_held_open_that_another_one_replaced(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    listing = FolderListing(str(tmp_path), many=1)
    listing.refresh()
    (tmp_path / "a").rename(tmp_path / "kept")
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "kept").rename(tmp_path.parent / "kept elsewhere")
    assert listing.refresh()
    assert listing.folders == present(tmp_path)
    listing.close()


def test_no_folder_stays_open(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    listing = FolderListing(str(tmp_path), many=1)
    for name in "cde":
        (tmp_path / "a" / name).mkdir()
        listing.refresh()
    assert open_files(tmp_path)
    listing.close()
    assert open_files(tmp_path) == []


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    listing = FolderListing(str(tmp_path))
    listing.refresh()
    assert set(listing.folders) == {"/a"}


def test_a_root_that_is_gone_is_an_error(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    listing = FolderListing(str(root))
    listing.refresh()
    root.rmdir()
    with pytest.raises(FileNotFoundError, match="root"):
        listing.refresh()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("listing")


folders = st.lists(st.sampled_from(["a", "b", "a/a", "a/b", "a/b/a", "b/b", "b/b/b", "c/c/c"]), unique=True)


@settings(max_examples=examples(40))
@given(
    steps=st.lists(folders, max_size=6), counted=st.booleans(), many=st.sampled_from([1, 2, 8]),
    watched=st.booleans(),
)  # fmt: skip
def test_any_changes_are_noticed(
    empty: Path, steps: list[list[str]], counted: bool, many: int, watched: bool
) -> None:
    """``counted`` False: a file system whose link counts say nothing of sub-folders. ``watched``: nothing is
    looked at but after an event."""
    changes = FolderChanges()
    watch = partial(changes.watch, 7) if watched else lambda _: False
    listing = FolderListing(str(empty), watch, leaf_links=2 if counted else 1, many=many)
    for wanted in [*steps, []]:
        for folder in sorted(present(empty), reverse=True):
            if not any(one == folder[1:] or one.startswith(f"{folder[1:]}/") for one in wanted):
                (empty / folder[1:]).rmdir()
        for folder in wanted:
            (empty / folder).mkdir(parents=True, exist_ok=True)
        if changes.drain() or not listing.is_watched:
            listing.refresh()
        assert listing.is_watched is watched
        assert listing.folders == present(empty)
    listing.close()
    changes.close()
