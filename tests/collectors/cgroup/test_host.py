"""The node's own figures, against fixed ``/proc`` files."""

from pathlib import Path

import pytest

from collectors.cgroup.host import HostReader, cpu_ticks, disk_bytes, memory_bytes
from collectors.interfaces import interface_bytes, of_pod, physical
from dutycycle.contract.records.samples import Host

NET = "  {}: {} 1 0 0 0 0 0 0 {} 1 0 0 0 0 0 0\n"


def write(root: Path, name: str, text: str) -> None:
    (root / "proc" / name).parent.mkdir(parents=True, exist_ok=True)
    (root / "proc" / name).write_text(text)


def state(root: Path, *, busy: int, sectors: int, rx: int) -> None:
    # user nice system idle iowait irq softirq steal guest guest_nice
    write(root, "stat", f"cpu  {busy} 1 2 50 60 3 4 70 {busy} 0\ncpu0 0\ncpu1 0\ncpu9 0\nintr 5\n")
    write(
        root, "meminfo", "MemTotal:   8000 kB\nMemFree: 1 kB\nMemAvailable:   3000 kB\nHugePages_Total: 0\n"
    )
    write(
        root,
        "diskstats",
        f"8 0 sda 1 0 {sectors} 0 1 0 {2 * sectors} 0 0 0 0\n8 1 sda1 1 0 9 0 1 0 9 0 0 0 0\n",
    )
    write(root, "1/net/dev", "Inter-|\n face |\n" + NET.format("eth0", rx, 7) + NET.format("lo", 10 * rx, 0))
    write(root, "net/dev", NET.format("eth0", 100 * rx, 0))


@pytest.mark.parametrize(
    ("speeds", "expected"),
    [
        pytest.param({"eth0": "25000\n", "eth1": "10000\n"}, 4_375_000_000, id="two links"),
        pytest.param({"eth0": "25000\n"}, None, id="one that does not say, as when it is down"),
        pytest.param({"eth0": "25000\n", "eth1": "-1\n"}, None, id="one that does not know"),
        pytest.param({"eth0": "25000\n", "eth1": "fast\n"}, None, id="no number"),
    ],
)
def test_what_the_links_carry(tmp_path: Path, speeds: dict[str, str], expected: int | None) -> None:
    write(tmp_path, "1/net/dev", "".join(NET.format(name, 5, 0) for name in ("eth0", "eth1", "lo")))
    for name in ("eth0", "eth1"):
        (tmp_path / "sys/class/net" / name / "device").mkdir(parents=True)
        if name in speeds:
            (tmp_path / "sys/class/net" / name / "speed").write_text(speeds[name])
    assert HostReader(str(tmp_path)).read().net_speed_bytes_per_s == expected


def test_a_link_that_nothing_passed_does_not_count_and_a_new_speed_is_seen(tmp_path: Path) -> None:
    write(tmp_path, "1/net/dev", NET.format("eth0", 5, 0) + NET.format("eth1", 0, 0))
    (tmp_path / "sys/class/net/eth0/device").mkdir(parents=True)
    speed = tmp_path / "sys/class/net/eth0/speed"
    speed.write_text("1000\n")
    reader = HostReader(str(tmp_path))
    assert reader.read().net_speed_bytes_per_s == 125_000_000
    speed.write_text("10000\n")
    assert {reader.read().net_speed_bytes_per_s for _ in range(60)} == {125_000_000, 1_250_000_000}


def test_a_host_measured(tmp_path: Path) -> None:
    now = [10.0]
    reader = HostReader(str(tmp_path), clock=lambda: now[0])
    state(tmp_path, busy=1000, sectors=0, rx=0)
    steady = {"cpu_count": 3, "mem_used_bytes": 5000 * 1024, "mem_total_bytes": 8000 * 1024}
    assert reader.read() == Host(**steady)
    now[0] += 2
    state(tmp_path, busy=1250, sectors=40, rx=3000)
    assert reader.read() == Host(
        **steady, cpu_util_pct=125.0, disk_read_bytes_per_s=10240, disk_write_bytes_per_s=20480,
        net_rx_bytes_per_s=1500, net_tx_bytes_per_s=0,
    )  # fmt: skip
    assert reader.disks == frozenset({"8:0"})
    now[0] += 1
    state(tmp_path, busy=10, sectors=1, rx=4000)  # as after a restore: CPU and disks count from anew
    found = reader.read()
    assert (found.cpu_util_pct, found.disk_read_bytes_per_s, found.net_rx_bytes_per_s) == (None, None, 1000)
    now[0] += 1
    state(tmp_path, busy=30, sectors=1, rx=4000)
    assert reader.read().cpu_util_pct == 20.0
    now[0] += 1
    state(tmp_path, busy=1_000_000, sectors=1, rx=4000)
    assert reader.read().cpu_util_pct == 300.0, "no more than all CPUs, however the ticks fell"


@pytest.mark.parametrize(
    ("missing", "absent"),
    [
        ("stat", {"cpu_util_pct", "cpu_count"}),
        ("meminfo", {"mem_used_bytes", "mem_total_bytes"}),
        ("diskstats", {"disk_read_bytes_per_s", "disk_write_bytes_per_s"}),
        ("1/net/dev", set()),
    ],
)
def test_a_missing_file_leaves_its_own_fields_out(tmp_path: Path, missing: str, absent: set[str]) -> None:
    now = [10.0]
    reader = HostReader(str(tmp_path), clock=lambda: now[0])
    for step in range(2):
        now[0] += 1
        state(tmp_path, busy=step, sectors=step, rx=step)
        (tmp_path / "proc" / missing).unlink()
        host = reader.read()
    assert {name for name in Host.__struct_fields__ if getattr(host, name) is None} == absent | {
        "net_speed_bytes_per_s"
    }
    assert (reader.disks is None) == (missing == "diskstats")


CPU_TABLE = [
    ("cpu  1 2 4 8 16 32 64 128 256 512\ncpu0 1\ncpu1 1\n", (103, 2)),
    ("cpu  1 2 4 8 16 32 64\ncpu0 1\n", (103, 1)),
    ("cpu  1 2 4\n", (None, None)),
    ("cpu  a 2 4 8 16 32 64\ncpu0 1\n", (None, 1)),
    ("cpu  1 -2 4 8 16 32 64\ncpu0 1\n", (None, 1)),
    ("", (None, None)),
    (None, (None, None)),
]


@pytest.mark.parametrize(("stat", "ticks"), CPU_TABLE)
def test_busy_is_neither_idle_nor_waiting_nor_stolen(stat: str | None, ticks: tuple[object, object]) -> None:
    assert cpu_ticks(stat) == ticks


MEMORY_TABLE = [
    ("MemTotal: 10 kB\nMemAvailable: 4 kB\n", (6144, 10240)),
    ("MemTotal: 10 kB\nMemAvailable: 11 kB\n", (0, 10240)),
    ("MemTotal: 10 kB\nMemFree: 4 kB\n", (None, 10240)),
    ("garbage\nMemTotal: x\n", (None, None)),
    ("MemTotal: 0 kB\nMemAvailable: 0 kB\n", (None, None)),
    (f"MemTotal: {10**19} kB\nMemAvailable: 0 kB\n", (None, None)),
    (f"MemTotal: {10**18} kB\nMemAvailable: 0 kB\n", (None, None)),
]


@pytest.mark.parametrize(("meminfo", "used_total"), MEMORY_TABLE)
def test_memory_used_is_what_is_not_available(meminfo: str, used_total: tuple[object, object]) -> None:
    assert memory_bytes(meminfo) == used_total


DISK_TABLE = [
    # what the host has, what counts
    ("sda sda1 sda2 sdb", "sda sdb"),
    ("nvme0n1 nvme0n1p1 nvme0n1p12 nvme1n1 nvme0c0n1", "nvme0n1 nvme1n1"),
    ("mmcblk0 mmcblk0p1 mmcblk0boot0", "mmcblk0 mmcblk0boot0"),
    ("vda vda1 dm-0 dm-1 md127 loop0 ram0 zram0 sr0 zd16 drbd0 bcache0", "vda"),
    ("xvda1 xvdb", "xvda1 xvdb"),
    ("nbd0 nbd0p1 rbd0 pmem0", "nbd0 rbd0 pmem0"),
    ("", ""),
]


@pytest.mark.parametrize(("present", "counted"), DISK_TABLE)
def test_each_byte_of_disks_counts_once(present: str, counted: str) -> None:
    names = present.split()
    text = "".join(f"8 {minor} {name} 1 0 2 0 1 0 3 0 0 0 0\n" for minor, name in enumerate(names))
    assert disk_bytes(text) == {f"8:{names.index(name)}": (1024, 1536) for name in counted.split()}


def test_lines_of_another_form_are_no_disks() -> None:
    assert disk_bytes("8 0 sda 1 2\n\nx\n8 0 sda 1 0 x 0 1 0 3 0 0 0 0\n") == {}


def test_interfaces() -> None:
    text = (
        "Inter-| Receive | Transmit\n face |bytes |bytes\n"
        + NET.format("eth0", 5, 6)
        + NET.format("a:1", 7, 8)
    )
    assert interface_bytes(text + " short: 1 2 3\n odd: a 0 0 0 0 0 0 0 6 0\n") == {
        "eth0": (5, 6),
        "a:1": (7, 8),
    }


NAMES_TABLE = [
    ("lo eth0 docker0 veth12ab br-0f1e cni0 flannel.1 cali123 ifb0 tailscale0", "eth0"),
    ("lo enp3s0 wlp2s0 virbr0 vnet0 bond0 eth0.100 dummy0 kube-ipvs0", "enp3s0 wlp2s0"),
    ("lo ens5 br0 tun0 wg0 cilium_host lxc_health", "ens5"),
    ("lo", ""),
]


@pytest.mark.parametrize(("present", "counted"), NAMES_TABLE)
def test_interfaces_by_name_where_sysfs_knows_no_hardware(tmp_path: Path, present: str, counted: str) -> None:
    assert physical(present.split(), str(tmp_path)) == set(counted.split())


def test_interfaces_by_hardware(tmp_path: Path) -> None:
    for name in ("eth0", "bond0", "dummyloader"):
        (tmp_path / "sys/class/net" / name).mkdir(parents=True)
    for name in ("eth0", "dummyloader"):
        (tmp_path / "sys/class/net" / name / "device").mkdir()
    assert physical(["lo", "eth0", "bond0", "dummyloader"], str(tmp_path)) == {"eth0", "dummyloader"}


def test_hardware_below_other_hardware_counts_once(tmp_path: Path) -> None:
    """As the virtual function of an Azure machine, whose bytes eth0 counts, too; a bond counts nothing."""
    folder = tmp_path / "sys/class/net"
    for name in ("eth0", "enP530s1", "ens6", "ens7"):
        (folder / name / "device").mkdir(parents=True)
    (folder / "bond0").mkdir()
    for below, above in (("enP530s1", "eth0"), ("ens6", "bond0"), ("ens7", "bond0")):
        (folder / below / "master").symlink_to(f"../{above}")
    assert physical(["eth0", "enP530s1", "ens6", "ens7", "bond0"], str(tmp_path)) == {"eth0", "ens6", "ens7"}


@pytest.mark.parametrize(
    ("present", "counted"),
    [
        ("lo eth0", "eth0"),
        ("lo eth0 net1", "eth0 net1"),
        ("lo eth0 macvlan1 ipvlan0", "eth0 macvlan1 ipvlan0"),  # Multus, by the name in the annotation
        ("lo eth0 k6t-eth0 tap0", "eth0"),  # KubeVirt
        ("lo tunl0 eth0 docker0 veth12ab", "eth0"),  # Docker in a pod
        ("lo tap0", "tap0"),  # podman without root
        ("lo", ""),
    ],
)
def test_interfaces_of_a_pod(present: str, counted: str) -> None:
    assert of_pod(dict.fromkeys(present.split(), (1, 2))) == dict.fromkeys(counted.split(), (1, 2))


def test_an_interface_that_appears_brings_no_burst(tmp_path: Path) -> None:
    now = [10.0]
    reader = HostReader(str(tmp_path), clock=lambda: now[0])
    rates = []
    for text in (NET.format("eth0", 100, 0), NET.format("eth0", 200, 0) + NET.format("eth1", 9**9, 0)):
        now[0] += 1
        write(tmp_path, "1/net/dev", text)
        rates.append(reader.read().net_rx_bytes_per_s)
    assert rates == [None, 100]
