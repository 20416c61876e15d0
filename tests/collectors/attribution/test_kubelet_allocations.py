"""Goal: whom a GPU was given to, as the kubelet says; what it does not say is unknown, not free."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import pytest

from collectors.attribution.device_id import DeviceId, parse_device_id
from collectors.attribution.kubelet import api_pb2
from collectors.attribution.kubelet.client import KubeletClient
from collectors.attribution.kubelet.types import AllocatedDevice, KubeletError
from collectors.attribution.kubelet_allocations import SOCKET, Allocations, allocations
from dutycycle.contract.records.samples import Allocation
from dutycycle.contract.settings.load import load
from dutycycle.telemetry.events import Telemetry
from tests.support.fakes.kubelet import FakeKubelet, kubelet_on

ROOT = Path(__file__).parents[3]
A = "GPU-00000000-0000-4000-8000-00000000000a"
B = "GPU-00000000-0000-4000-8000-00000000000b"
MIG = "MIG-00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("text", "means"),
    [
        (A, DeviceId(uuid=A)),
        (A + "::3", DeviceId(uuid=A, shared=True)),
        (MIG, DeviceId(uuid=MIG)),
        (MIG + "::0", DeviceId(uuid=MIG, shared=True)),
        (f"MIG-{A}/7/0", DeviceId(uuid=A, instance=7)),
        (f"MIG-{A}/7/0::1", DeviceId(uuid=A, instance=7, shared=True)),
        ("nvidia0", DeviceId(minor=0)),
        ("nvidia12/gi1", DeviceId(minor=12, instance=1)),
        ("nvidia0/vgpu2", DeviceId(minor=0, shared=True)),
        ("nvidia0/gi1/vgpu2", DeviceId(minor=0, instance=1, shared=True)),
        ("gpu-0", DeviceId(minor=0)),
        ("0fa1b2c3-0000-4000-8000-00000000000a-gpu-11", DeviceId(minor=11)),
        ("gpu-1-mig-9-4-4", DeviceId(minor=1, some_slice=True)),
        ("gpu-vfio-0", None),
        ("0000:3b:00.0", None),
        ("GPU-zz", None),
        ("", None),
        (A + "::", None),
        (f"x{A}", None),
    ],
)
def test_device_ids(text: str, means: DeviceId | None) -> None:
    assert parse_device_id(text) == means


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="dc-") as name:  # a socket's path may have 108 bytes
        yield Path(name)


@pytest.fixture
def kubelet(folder: Path) -> Iterator[FakeKubelet]:
    fake = FakeKubelet()
    with kubelet_on(folder / "kubelet.sock", fake):
        yield fake


def uid_of(namespace: str, name: str) -> str | None:
    return None if name == "stranger" else f"uid-of-{namespace}-{name}"


@pytest.fixture
def asking(folder: Path) -> Iterator[Callable[[], Allocations]]:
    made: list[Allocations] = []

    def make() -> Allocations:
        one = Allocations(KubeletClient(folder / "kubelet.sock"), uid_of, Telemetry("collect"), every_s=3600)
        made.append(one)
        one.ask()
        return one

    yield make
    for one in made:
        one.close()


def held(pod: str, **more: object) -> Allocation:
    known = {"namespace": "team", "container": "main", "pod_uid": uid_of("team", pod)}
    return Allocation(pod=pod, **{**known, **more})  # type: ignore[arg-type]  # a table's shorthand


def test_each_gpu_has_its_holders(kubelet: FakeKubelet, asking: Callable[[], Allocations]) -> None:
    kubelet.give("alone", A)
    kubelet.give("first", B + "::0", B + "::1")
    kubelet.give("second", B + "::2")
    kubelet.give("third", "0000:3b:00.0")
    given = asking()
    assert given.of(A, 0, {}) == (held("alone"),)
    assert given.of(B, 1, {}) == (held("first", shared=True), held("second", shared=True))
    assert given.of("GPU-another", 2, {}) == ()


def test_slices_by_every_name(kubelet: FakeKubelet, asking: Callable[[], Allocations]) -> None:
    kubelet.give("by-uuid", MIG)
    kubelet.give("by-instance", f"MIG-{A}/2/0")
    kubelet.give("by-index", "nvidia0/gi3")
    found = asking().of(A, 0, {MIG: 1, "MIG-2": 2, "MIG-3": 3})
    assert found == (
        held("by-uuid", mig=MIG),
        held("by-instance", mig="MIG-2"),
        held("by-index", mig="MIG-3"),
    )


def test_slices_that_share_a_gpu_instance(kubelet: FakeKubelet, asking: Callable[[], Allocations]) -> None:
    """A uuid names one of them; a GPU instance does not."""
    shared = {MIG: 2, MIG[:-1] + "2": 2}
    for number, slice_ in enumerate(shared):
        kubelet.give(f"by-uuid-{number}", slice_)
    given = asking()
    assert given.of(A, 0, shared) == tuple(held(f"by-uuid-{n}", mig=mig) for n, mig in enumerate(shared))
    kubelet.give("by-instance", f"MIG-{A}/2/1")
    given.ask()
    assert given.of(A, 0, shared) is None


def test_a_slice_that_the_driver_does_not_list_is_not_the_whole_gpu(
    kubelet: FakeKubelet, asking: Callable[[], Allocations]
) -> None:
    kubelet.give("by-instance", f"MIG-{A}/2/0")
    assert asking().of(A, 0, {}) is None


def test_a_pod_of_which_only_the_name_is_known(
    kubelet: FakeKubelet, asking: Callable[[], Allocations]
) -> None:
    kubelet.give("stranger", A)
    assert asking().of(A, 0, {}) == (held("stranger", pod_uid=None),)


def claimed(*names: str) -> api_pb2.PodResources:
    """A pod with a claim for devices of these CDI names."""
    devices = [api_pb2.CDIDevice(name=name) for name in names]
    claim = api_pb2.DynamicResource(claim_resources=[api_pb2.ClaimResource(cdi_devices=devices)])
    container = api_pb2.ContainerResources(name="main", dynamic_resources=[claim])
    return api_pb2.PodResources(name="claimed", namespace="team", containers=[container])


CLAIM = "k8s.gpu.nvidia.com/claim=0fa1b2c3-0000-4000-8000-00000000000c"


@pytest.mark.parametrize(
    ("names", "minors", "slices", "holders"),
    [
        ([f"k8s.gpu.nvidia.com/device={A}"], {}, {}, [True, False]),
        (["k8s.gpu.nvidia.com/device=gpu-1"], {}, {}, [False, True]),
        (["k8s.gpu.nvidia.com/device=gpu-1", f"{CLAIM}-gpu-1"], {}, {}, [False, True]),
        (["k8s.gpu.nvidia.com/device=gpu-1"], {0: B, 1: A}, {}, [True, False]),
        (["k8s.gpu.nvidia.com/device=gpu-1"], {0: "GPU-????????-????"}, {}, [False, True]),
        (["k8s.gpu.amd.com/device=gpu-0"], {}, {}, [False, False]),
        (["k8s.gpu.nvidia.com/device=gpu-0-mig-9-4-4"], {}, {MIG: 1}, [MIG, False]),
        (["k8s.gpu.nvidia.com/device=gpu-0-mig-9-4-4"], {}, {MIG: 1, "MIG-2": 2}, [None, False]),
    ],
)
def test_a_claim_of_dynamic_resource_allocation(
    folder: Path, kubelet: FakeKubelet, names: list[str], minors: dict[int, str], slices: dict[str, int],
    holders: list[bool | str | None],
) -> None:  # fmt: skip
    """Of GPU A and GPU B: whether the pod holds it, or its slice; None where that is not known."""
    for minor, uuid in minors.items():
        file = folder / f"proc/driver/nvidia/gpus/0000:0{minor}:00.0/information"
        file.parent.mkdir(parents=True)
        file.write_text(f"Model: \t NVIDIA H100\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n")
    kubelet.pods = [claimed(*names)]
    client = KubeletClient(folder / "kubelet.sock")
    given = Allocations(client, uid_of, Telemetry("collect"), every_s=3600, host_root=str(folder))
    given.ask()
    expected = [
        None if holder is None else () if not holder
        else (held("claimed", mig=holder) if isinstance(holder, str) else held("claimed"),)
        for holder in holders
    ]  # fmt: skip
    assert [given.of(A, 0, slices), given.of(B, 1, {})] == expected
    given.close()


def test_a_kubelet_that_refuses_makes_it_unknown_and_is_asked_again(
    kubelet: FakeKubelet, asking: Callable[[], Allocations]
) -> None:
    kubelet.give("alone", A)
    given = asking()
    kubelet.refuses = grpc.StatusCode.RESOURCE_EXHAUSTED
    given.ask()
    assert given.of(A, 0, {}) is None
    kubelet.refuses = None
    given.ask()
    assert given.of(A, 0, {}) == (held("alone"),)


def test_a_kubelet_that_knows_no_pod_yet_has_not_taken_the_gpus_back(
    kubelet: FakeKubelet, asking: Callable[[], Allocations]
) -> None:
    assert asking().of(A, 0, {}) is None
    kubelet.give("another", "0000:3b:00.0")
    assert asking().of(A, 0, {}) == ()


def test_it_asks_by_itself(kubelet: FakeKubelet, folder: Path) -> None:
    kubelet.give("alone", A)
    given = Allocations(KubeletClient(folder / "kubelet.sock"), uid_of, Telemetry("collect"), every_s=0.01)
    try:
        deadline = time.monotonic() + 120
        while kubelet.asked < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert kubelet.asked >= 3
    finally:
        given.close()


def test_without_a_kubelet_the_error_names_the_socket(folder: Path) -> None:
    client = KubeletClient(folder / "none.sock")
    with pytest.raises(KubeletError, match=r"none\.sock: UNAVAILABLE"):
        client.devices()
    client.close()


def test_auto_asks_only_where_the_host_has_the_socket(folder: Path) -> None:
    settings = load({"DUTYCYCLE_HOST_ROOT": str(folder)})
    assert allocations(settings, Telemetry("collect"), uid_of) is None
    socket = folder / SOCKET
    socket.parent.mkdir(parents=True)
    with kubelet_on(socket, FakeKubelet()):
        found = allocations(settings, Telemetry("collect"), uid_of)
        assert found is not None
        found.close()
        off = load({"DUTYCYCLE_HOST_ROOT": str(folder), "DUTYCYCLE_POD_RESOURCES": "off"})
        assert allocations(off, Telemetry("collect"), uid_of) is None


def test_what_was_given_is_plain(kubelet: FakeKubelet, folder: Path) -> None:
    kubelet.give("alone", A, container="trainer")
    client = KubeletClient(folder / "kubelet.sock")
    assert client.devices() == [AllocatedDevice("team", "alone", "trainer", A)]
    client.close()


def fields(proto: str) -> dict[tuple[str, str], str]:
    """Type and number of each field, by message and field."""
    return {
        (message, name): f"{kind} = {number}"
        for message, body in re.findall(r"message (\w+) \{(.*?)\n?\}", proto, re.DOTALL)
        for kind, name, number in re.findall(r"^\s*((?:repeated )?\w+) (\w+) = (\d+);", body, re.MULTILINE)
    }


def test_every_field_has_the_number_that_the_kubelet_gives_it() -> None:
    ours = fields((ROOT / "collectors/attribution/kubelet/api.proto").read_text())
    found = sorted(Path.home().glob("go/pkg/mod/k8s.io/kubelet@*/pkg/apis/podresources/v1/api.proto"))
    if not found:
        pytest.skip("k8s.io/kubelet is not in the Go module cache: go mod download k8s.io/kubelet@latest")
    theirs = fields(found[-1].read_text())
    assert len(ours) == 17
    assert ours.items() <= theirs.items()


def test_the_generated_module_is_that_of_the_proto(tmp_path: Path) -> None:
    command = [
        "-m", "grpc_tools.protoc", "-I", ".", f"--python_out={tmp_path}",
        "collectors/attribution/kubelet/api.proto"
    ]  # fmt: skip
    subprocess.run([sys.executable, *command], check=True, cwd=ROOT)
    made = tmp_path / "collectors/attribution/kubelet/api_pb2.py"
    assert made.read_text() == (ROOT / "collectors/attribution/kubelet/api_pb2.py").read_text()
