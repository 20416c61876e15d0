"""Goal: each fault of a GPU is told in seconds, with the right words, wherever somebody may look.

The driver is the fake one, and so are the kubelet and the API server: a world with one fault a GPU, of which
a job has six. The collector, the streams, the sinks, the extender and the live view run as they do in a
cluster, and the commands are asked as a person asks them.
"""

import re
import shutil
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import orjson
from sqlalchemy import create_engine, text

from dutycycle.contract.health.xids import LEVELS
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.telemetry.endpoint import AskError
from tests.support.deploy.promtool import alerts, judge
from tests.support.fakes.api_server import FakeApi, fake_api_server
from tests.support.fakes.kubelet import FakeKubelet, kubelet_on
from tests.support.fakes.nvml.library import driver
from tests.support.fakes.nvml.scenario import FakeEvent, FakeGpu, FakeMig, Scenario
from tests.support.kafka import all_topics, settings_of
from tests.support.kubectl.plugin_user import install
from tests.support.processes.commands import dutycycle, environ, read_now, run_to_end, running
from tests.support.processes.figures import Process
from tests.support.servers.kube.client import kubeconfig
from tests.support.servers.kube.scheduler import gpu_pod
from tests.support.servers.ports import free_port
from tests.support.waiting import DEADLINE_S, wait_until

NODE, NODE_PATH = "gpu-a", "/api/v1/nodes/gpu-a"
(
    XID, LOST, COUNTER, NAN, OVER, OLD, SLICED, BROKEN, ECC, PENDING, LINK, BRAKED, FABRIC, ACTION, SPARE,
    HOT,
) = GPUS = range(16)  # fmt: skip
"""The GPUs by their faults."""
SLICE = "MIG-00000000-0000-4000-8000-000000000001"
COUNTERS = {2: 71.5, 3: 30, 5: 44.4, 10: 33.3}
"""GPM's of SM, occupancy, tensor cores and DRAM."""
IN_TIME_S, COUNTED_S = 10.0, 6.0
COMMANDS = ("kubectl", "machine")
"""The outlets that are asked by a process of their own."""


def uuid(index: int) -> str:
    return f"GPU-00000000-0000-4000-8000-{index:012}"


def world(fault_at_s: float | None = None, start: float = 0.0) -> Scenario:
    """A GPU for each fault, in order until it comes."""

    def gpu(index: int, **changes: Any) -> FakeGpu:
        of_all: dict[str, Any] = {
            "values": {"util": 83, "mem_used": 7e9, "mem_total": 80e9, "power_w": 400}, "counters": COUNTERS,
        }  # fmt: skip
        if index == SLICED:
            of_all["values"] |= {"mig_mode": 1}
            of_all["mig"] = [FakeMig(index=0, uuid=SLICE, gi=5, util=60, counters=COUNTERS)]
        return FakeGpu(uuid=uuid(index), **(of_all | changes))

    gpus = [gpu(index) for index in GPUS]
    if fault_at_s is not None:
        at = fault_at_s
        gpus[XID] = gpu(XID, events=[FakeEvent(data=48, at_s=at)])
        gpus[LOST] = gpu(LOST, errors={"*": f"GPU_IS_LOST from={at}"})
        gpus[COUNTER] = gpu(COUNTER, errors={"gpm:5": f"UNKNOWN from={at}"})
        gpus[NAN] = gpu(NAN, counters=COUNTERS | {5: "nan"})
        gpus[OVER] = gpu(OVER, counters=COUNTERS | {5: 130})
        gpus[OLD] = gpu(OLD, values={"util": 83, "gpm": 0})
        gpus[SLICED] = gpu(SLICED, events=[FakeEvent(data=43, at_s=at, gi=5, ci=0)])
        gpus[BROKEN] = gpu(BROKEN, events=[FakeEvent(data=64, at_s=at)], fields={145: 1})
        gpus[ECC] = gpu(ECC, events=[FakeEvent(data=0, at_s=at, type=2)], fields={4: 3, 6: 3})
        gpus[PENDING] = gpu(PENDING, events=[FakeEvent(data=63, at_s=at)], fields={144: 1, 143: 1})
        usual = dict(gpus[BRAKED].values)
        gpus[BRAKED] = gpu(BRAKED, values=usual | {"throttle": 0x88, "sm_mhz": 600, "power_w": 220})
        gpus[HOT] = gpu(HOT, values=usual | {"throttle": 0x48, "sm_mhz": 900, "temp_c": 91})
        gpus[FABRIC] = gpu(FABRIC, values=usual | {"fabric_state": 2})
        gpus[ACTION] = gpu(ACTION, events=[FakeEvent(data=154, at_s=at)], fields={230: 2})
        gpus[SPARE] = gpu(SPARE, values=usual | {"banks_none": 1}, events=[FakeEvent(data=63, at_s=at)])
        gpus[LINK] = gpu(LINK, events=[FakeEvent(data=74, at_s=at)], fields={"165 scope=3": 0})
    return Scenario(gpus=gpus, start=start)


def pod(name: str) -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "bert", "uid": "j1", "controller": True}
    return {
        "metadata": {"uid": f"uid-{name}", "name": name, "namespace": "team", "resourceVersion": "1",
                     "ownerReferences": [owner]},
        "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "bert:1"}]},
        "status": {"phase": "Running"},
    }  # fmt: skip


HELD = {
    "bert-0": uuid(XID), "bert-1": uuid(LOST), "bert-2": SLICE, "bert-3": uuid(BROKEN), "bert-4": uuid(ECC),
    "bert-5": uuid(LINK),
}  # fmt: skip
"""What the kubelet gave to the pods of the job."""


@contextmanager
def machine(folder: Path, scenario: Path) -> Iterator[tuple[dict[str, str], FakeApi]]:
    """The node's kubelet, and the API server; the environment of a process there."""
    kubelet = FakeKubelet()
    with TemporaryDirectory(prefix="dc-") as short, fake_api_server() as api:
        api.groups["/apis/batch/v1"] = [("Job", "jobs", True)]
        api.add("/apis/batch/v1/namespaces/team/jobs/bert", "j1")
        api.add(NODE_PATH, "n")
        for name, device in HELD.items():
            kubelet.give(name, device)
            api.pods.put(pod(name))
            api.add(f"/api/v1/namespaces/team/pods/{name}", f"uid-{name}")
        socket = Path(short) / "kubelet.sock"
        with kubelet_on(socket, kubelet):
            env = environ(
                node=NODE, kubernetes="on", pod_resources=str(socket), spool=str(folder / "spool"),
                records=f"sqlite:///{folder}/records.db", partitions="1",
            )  # fmt: skip
            config = kubeconfig(folder / "kubeconfig", api.url)
            yield env | driver(scenario) | {"KUBECONFIG": str(config), "PYTHONUNBUFFERED": "1"}, api


@dataclass
class Outlets:
    """What each outlet says now, as text, and when each was first heard to say what it should."""

    folder: Path
    api: FakeApi
    exported: Process
    env: dict[str, str]
    last: str
    filters: str
    """Where the extender answers that gives nodes with broken GPUs the lowest score, and the other one."""
    web: str
    came_s: dict[str, float] = field(default_factory=dict)
    page_s: float = 0.0
    """How long the slowest page took."""
    asked: Counter[str] = field(default_factory=Counter)
    """How often each outlet was looked at."""

    def annotation(self) -> str:
        ours = self.api.objects[NODE_PATH]["annotations"]
        return "\n".join(
            f"{key} {ours.get(f'dutycycle.io/{key}')}" for key in ("gpu_health", "gpu_health_reason")
        )

    def event(self) -> str:
        return "\n".join(
            f"{event['regarding']['kind']} {event['regarding']['name']} {event['reason']}: {event['note']}"
            for event in [*self.api.events.values()]
        )

    def series(self) -> str:
        try:
            return self.exported.page()
        except AskError:
            return ""

    def screen(self) -> str:
        return (self.folder / "top.log").read_text()

    def page(self) -> str:
        """The page for browsers: the fleet, then the tables of GPUs."""
        pages = []
        for name in ("fleet", "gpus"):
            began_s = time.monotonic()
            with urllib.request.urlopen(f"http://{self.web}/{name}", timeout=120) as answer:
                pages.append(unescape(answer.read().decode()))
            self.page_s = max(self.page_s, time.monotonic() - began_s)
        return "\n".join(pages)

    def sql(self) -> str:
        engine = create_engine(f"sqlite:///{self.folder}/records.db")
        try:
            with engine.connect() as connection:
                rows = connection.execute(text(
                    "SELECT gpu_index, kind, code, name, pod, job, mig, inferred FROM gpu_events"
                ))  # fmt: skip
                return "\n".join(" ".join(str(cell) for cell in row) for row in rows)
        finally:
            engine.dispose()

    def topic(self) -> str:
        """The verdicts of the newest record of ``gpu-health``, and the events."""
        read = read_now(settings_of(self.env), ["gpu-events", "gpu-health"])
        verdicts = orjson.loads(read["gpu-health", NODE][-1])["gpus"]
        lines = [f"health {gpu['index']} {gpu['level']}: {gpu.get('reason')}" for gpu in verdicts]
        for event in map(orjson.loads, read["gpu-events", NODE]):
            pods = ",".join(pod["name"] for pod in event.get("pods", ()))
            lines.append(f"event {event['index']} {event['kind']}: {event['name']}; {pods}")
        return "\n".join(lines)

    def extender(self) -> str:
        """What kube-scheduler is answered about a pod that wants a GPU."""
        question = orjson.dumps({"Pod": gpu_pod("team", "new"), "NodeNames": [NODE, "other"]})
        answers = [post(self.last, "prioritize", question), post(self.filters, "filter", question)]
        return "\n".join(answers)

    def machine(self) -> str:
        """``dutycycle health`` on the machine."""
        done = run_to_end("health", env=self.env)
        return f"status {done.returncode}\n{done.stdout}{done.stderr}"

    def kubectl(self) -> str:
        """``kubectl dutycycle health``."""
        command = [str(self.folder / "kubectl-dutycycle"), "health"]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False, timeout=120)
        return done.stdout + done.stderr


def post(address: str, verb: str, question: bytes) -> str:
    with urllib.request.urlopen(f"http://{address}/{verb}", question, timeout=120) as answer:
        return str(answer.read().decode())


def labels(index: int) -> str:
    return f'gpu="{index}",node="{NODE}",uuid="{uuid(index)}"'


class Verdict(NamedTuple):
    """Says what is to be said of a GPU; ``reason`` and ``action`` are patterns. ``pod``: which pod of the job
    was hit, by which fault. ``rows``: those of the table of events. ``told_now``: the driver tells it whoever
    asks now, also who did not hear of it when it happened."""

    level: str
    reason: str
    action: str
    rows: tuple[str, ...]
    pod: str = ""
    fault: str = ""
    told_now: bool = True

    @property
    def rank(self) -> int:
        return LEVELS.index(self.level)


_GONE, _ECC = "Xid 79: GPU has fallen off the bus", "Xid 48: uncorrectable ECC error"
_NVLINK = "check links and NVSwitch, then reset the GPU"
_TO_REMAP = "xid 63 Xid 63: row remapping or page retirement recorded"
VERDICTS = {
    XID: Verdict("reset", _ECC, "drain the node, then reset the GPU", (f"xid 48 {_ECC} bert-0 bert ",),
                 "bert-0", _ECC, told_now=False),
    LOST: Verdict("reset", _GONE, "restart the machine; check power, seating and cooling",
                  (f"xid 79 {_GONE} bert-1 bert None (True|1)$",), "bert-1", _GONE),
    BROKEN: Verdict("replace", "row remapping failed", "replace the GPU: NVIDIA takes it back",
                    ("remap_failed None row remapping failed bert-3 bert ", "xid 64 .* bert-3 bert "),
                    "bert-3", "Xid 64: row remapping or page retirement failed"),
    ECC: Verdict("drain", "uncorrectable ECC errors since its last reset: 3",
                 "let the work end, then reset the GPU",
                 ("ecc_uncorrected None uncorrectable ECC errors bert-4 bert ",), "bert-4",
                 "uncorrectable ECC errors"),
    PENDING: Verdict("watch", "row remapping waits for a reset", "reset the GPU when convenient",
                     ("remap_pending None row remapping waits for a reset None None ", _TO_REMAP)),
    LINK: Verdict("reset", "(Xid 74: NVLink error|1 of 18 NVLinks are down)", "check [^<\"]*",
                  ("nvlink_down None NVLinks went down bert-5 bert ", "xid 74 .* bert-5 bert "), "bert-5",
                  "Xid 74: NVLink error", told_now=False),
    FABRIC: Verdict("drain", "NVLink fabric: in progress", "restart the fabric manager, or the machine",
                    ("fabric 2 NVLink fabric: in progress None None ",)),
    ACTION: Verdict("reset", "the driver asks for recovery action 2", "restart the machine",
                    ("recovery_action 2 the driver asks for recovery action 2 None None ", "xid 154 ")),
    SPARE: Verdict("watch", "banks of memory without a row left to replace another: 1",
                   "plan to replace the GPU: the next such error cannot be mended",
                   ("banks_exhausted None banks of memory have no row left ", _TO_REMAP)),
}  # fmt: skip
XIDS = {XID: (48,), LOST: (79,), SLICED: (43,), BROKEN: (64,), PENDING: (63,), LINK: (74,), ACTION: (154,),
        SPARE: (63,)}  # fmt: skip
SLOWED = {BRAKED: "its hardware, a power brake", HOT: "its hardware, heat at 91 °C"}
"""Of GPUs that are in order what slows them."""
WITHOUT_AN_EVENT = {FABRIC}
"""Of these the driver tells in counters alone, which are read in ten ticks once."""


def expected() -> dict[tuple[str, str], str]:
    """What each outlet is to say of each fault, as a pattern."""
    since = r", since \S+ \S+ UTC; "
    words = {
        ("annotation", "the worst"): r"gpu_health replace",
        ("event", "the pod of a slice"):
            rf"Pod bert-2 GpuFault: Xid 43: GPU stopped processing on gpu {SLICED} \(slice {SLICE}\) of node",
        ("topic", "the pod of a slice"):
            f"^event {SLICED} xid: Xid 43: GPU stopped processing; bert-2$",
        ("sql", "a slice"): f"^{SLICED} xid 43 Xid 43: GPU stopped processing bert-2 bert {SLICE} ",
        ("series", f"gpu {SLICED}: level"): rf"^dutycycle_gpu_health\{{{labels(SLICED)}\}} 0\.0$",
        ("extender", "last"): rf'"Host":"{NODE}","Score":0\}}.*"Host":"other","Score":5',
        ("extender", "left out"): rf'"FailedNodes":\{{"{NODE}":"7 of its GPUs should get no more work',
        ("kubectl", "the worst"): f"^{NODE} +replace ",
        ("machine", "the status"): "^status 1$",
        ("page", "a lost GPU in its row"): rf"silent for \w+, reset: {_GONE}",
    }  # fmt: skip
    for index, gpu in VERDICTS.items():
        of = f"gpu {index}"
        verdict = f"{index}: {gpu.level}: {gpu.reason}"
        warning = f"GPU {NODE}:{verdict}; {gpu.action}"
        words |= {
            ("annotation", of): f"gpu {verdict}{since}{gpu.action}",
            ("kubectl", of): f"gpu {verdict}{since}{gpu.action}",
            ("topic", of): f"^health {index} {gpu.level}: {gpu.reason}$",
            ("screen", of): f"! {warning}",
            ("page", of): f"<li>{warning}",
            ("series", f"{of}: level"): rf"^dutycycle_gpu_health\{{{labels(index)}\}} {gpu.rank}\.0$",
        }
        words |= {("sql", f"{of}: {row}"): f"^{index} {row}" for row in gpu.rows}
        if index != LOST:  # which says that it is silent first
            words["page", f"{of} in its row"] = f">{gpu.level}: {gpu.reason}"
        if gpu.rank >= LEVELS.index("drain"):
            words["event", of] = f"Node {NODE} GpuUnhealthy: gpu {verdict}"
        if gpu.pod:
            words["event", f"{of}: the pod"] = f"Pod {gpu.pod} GpuFault: {gpu.fault}.* on gpu {index} of node"
            words["topic", f"{of}: the pod"] = f"^event {index} .*; {gpu.pod}$"
        if gpu.told_now:
            words["machine", of] = rf"^ *{index} +{gpu.level} +.*{gpu.reason} \({gpu.action}"
    for index, codes in XIDS.items():
        for code in codes:
            words["series", f"gpu {index}: Xid"] = (
                rf'^dutycycle_gpu_xid_errors_total\{{{labels(index)},xid="{code}"\}} 1\.0$'
            )
    for index, by in SLOWED.items():
        words["screen", f"gpu {index}"] = f"^gpu {NODE} gpu {index} .* slowed by {by.partition(' at ')[0]}"
        words["page", f"gpu {index}"] = f"<li>GPU {NODE}:{index}: slowed by {by}<"
        words["series", f"gpu {index}"] = (
            rf'^dutycycle_gpu_throttled\{{(?=.*{uuid(index)}).*reason="{"heat" if index == HOT else "power"}"'
            r".*\} 1\.0$"
        )
    return words


def tensor(index: int) -> re.Pattern[str]:
    return re.compile(rf"^dutycycle_gpu_tensor_active_ratio\{{.*{uuid(index)}.*\}} (\S+)$", re.MULTILINE)


def told(outlets: Outlets, missing: dict[tuple[str, str], str], since_s: float) -> dict[tuple[str, str], str]:
    """Look once at each outlet; what is still ``missing``, from which what came is taken. Commands are asked
    once all else is told: on a busy machine one takes half a minute, in which nobody would look."""
    outlets_left = dict.fromkeys(outlet for outlet, _ in missing)
    for outlet in [outlet for outlet in outlets_left if outlet not in COMMANDS] or outlets_left:
        began_s = time.time() - since_s
        outlets.asked[outlet] += 1
        says = getattr(outlets, outlet)()
        for key in [key for key in missing if key[0] == outlet]:
            if re.search(missing[key], says, re.MULTILINE):
                outlets.came_s[": ".join(key)] = began_s
                del missing[key]
    return missing


def check_absent(env: dict[str, str], counted: dict[str, float]) -> None:
    """What cannot be measured any more is absent in samples and on the screen, and the rest is there."""
    shown: dict[int, dict[str, Any]] = {}

    def are_sampled() -> bool:
        # On a machine that is too busy to sample for ten seconds all are silent for a moment.
        picture = orjson.loads(dutycycle("top", "--once", "--format", "json", env=env).stdout)
        shown.update((gpu["index"], gpu) for gpu in picture["gpus"])
        return "gpu_util_pct" in shown[OLD]

    wait_until(are_sampled, lambda: str(shown))
    sample = orjson.loads(read_now(settings_of(env), ["nvml-samples"])["nvml-samples", NODE][-1])
    measured = {gpu["index"]: gpu for gpu in sample["gpus"]}
    assert LOST not in measured
    for gpus in (shown, measured):
        for index in (COUNTER, NAN, OVER):
            assert "tensor_active_pct" not in gpus[index]
            assert gpus[index]["sm_active_pct"] == 71.5
        assert "sm_active_pct" not in gpus[OLD]
        assert gpus[OLD]["gpu_util_pct"] == 83
        assert gpus[XID]["tensor_active_pct"] == 44.4
    (piece,) = measured[SLICED]["mig"]
    assert (piece["sm_active_pct"], measured[SLICED].get("sm_active_pct")) == (71.5, None)
    reasons = {name for name in counted if name.startswith("not_measured_total") and "tensor_active" in name}
    assert any('reason="unknown_error"' in name for name in reasons), counted
    assert any('reason="out_of_range"' in name for name in reasons), counted


def check_lost(outlets: Outlets) -> None:
    """What a GPU that is lost did last is not told as what it does, nor as nothing."""
    silent = re.compile(rf"gpu {NODE} gpu {LOST} NVIDIA H200: · \(max 83.0 %\) memory · .* silent for ")
    line = ""

    def is_silent() -> bool:
        nonlocal line  # the screen prints its lines now and then
        (*_, line) = re.findall(rf"^gpu {NODE} gpu {LOST} .*$", outlets.screen(), re.MULTILINE)
        return silent.match(line) is not None

    wait_until(is_silent, lambda: line)
    series = outlets.series()
    of_pods = re.findall(r'^dutycycle_pod_gpu_(\S+?)\{.*pod="(bert-[01])".*\} (\S+)$', series, re.MULTILINE)
    now = {pod: round(float(value), 3) for name, pod, value in of_pods if name == "utilization_ratio"}
    assert now == {"bert-0": 0.83}


def check_alerts(folder: Path, page: str) -> None:
    """By the series as they are now the alerts come, each with its reason. Without promtool this is not
    known."""
    if shutil.which("promtool") is None:
        return
    series = re.findall(r"^(dutycycle_gpu_(?:health|finding)\{.*\}) (\S+)$", page, re.MULTILINE)
    given = [{"series": name, "values": f"{float(value):g}x90"} for name, value in series]
    for index in (*VERDICTS, SLICED, COUNTER, OLD, HOT):
        own = [row for row in given if uuid(index) in row["series"]]
        gpu = VERDICTS.get(index)
        alarms: dict[str, list[Any]] = {"GpuUnhealthy": [], "GpuToWatch": []}
        if gpu is not None:
            broken = gpu.rank >= LEVELS.index("drain")
            says = "is not healthy" if broken else "works, and wants a look"
            # Of two findings that are as bad either may be told: the other one is left out.
            is_told = re.compile(f'action="({gpu.action})".*reason="({gpu.reason})"')
            finding, words = next(
                (row, match) for row in own if (match := is_told.search(row["series"])) is not None
            )
            own = [finding, *(row for row in own if "dutycycle_gpu_health" in row["series"])]
            action, reason = words[1], words[2]
            alarms["GpuUnhealthy" if broken else "GpuToWatch"] = [{
                "exp_labels": {"severity": "critical" if broken else "info", "node": NODE,
                               "gpu": str(index), "uuid": uuid(index)},
                "exp_annotations": {"summary": f"GPU {index} of {NODE} {says}: {reason}; {action}"},
            }]  # fmt: skip
        judge(folder, "workloads.yml", own, *(alerts(name, 75, *those) for name, those in alarms.items()))


def check_report(env: dict[str, str], folder: Path) -> None:
    """The report of the job has what hit its pods, and nothing else."""
    trace = folder / "job.jsonl"
    dutycycle("record", "--from", "1000000000000", "--out", trace, env=env)
    page = folder / "report.html"
    dutycycle("report", trace, "--job", "bert", "--out", page, env=env)
    said = re.findall(r"<strong>GPU fault</strong> at \S+ \S+ UTC: (.*?)</", page.read_text())
    assert {fault.partition(":")[0] + fault.partition(":")[2].partition(":")[0] for fault in said} == {
        f"Xid 48 uncorrectable ECC error on gpu {XID}, used by bert-0",
        f"Xid 79 GPU has fallen off the bus on gpu {LOST}, used by bert-1",
        f"Xid 43 GPU stopped processing on gpu {SLICED}, used by bert-2",
        f"Xid 64 row remapping or page retirement failed on gpu {BROKEN}, used by bert-3",
        f"row remapping failed on gpu {BROKEN}, used by bert-3 replace the GPU",
        f"uncorrectable ECC errors on gpu {ECC}, used by bert-4 let the work end, then reset the GPU",
        f"Xid 74 NVLink error on gpu {LINK}, used by bert-5",
        f"NVLinks went down on gpu {LINK}, used by bert-5 check links and NVSwitch, then reset the GPU",
    }, said


def test_each_fault_is_told_at_each_outlet_in_seconds(tmp_path: Path) -> None:
    start = time.time() - 100
    scenario = world(start=start).write(tmp_path / "scenario")
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(all_topics()))
        env, api = stack.enter_context(machine(tmp_path, scenario))
        env |= {"DUTYCYCLE_BROKER": broker.url}
        install(tmp_path)
        last, filters, web = (f"127.0.0.1:{free_port()}" for _ in range(3))
        commands = {"collect": ["collect"], "stream": ["stream"], "sink": ["sink"],
                    "series": ["sink", "--metrics"], "top": ["top", "--web", web], "last": ["extender"],
                    "filters": ["extender"]}  # fmt: skip
        of = {
            "last": {"DUTYCYCLE_SERVE_LISTEN": last},
            "filters": {"DUTYCYCLE_SERVE_LISTEN": filters, "DUTYCYCLE_EXTENDER_SICK": "filter"},
        }
        for name, command in commands.items():
            stack.enter_context(running(*command, env=env | of.get(name, {}), log=tmp_path / f"{name}.log"))
        outlets = Outlets(tmp_path, api, Process(tmp_path / "series.log"), env, last, filters, web)
        measured = list(GPUS)
        measured.remove(SLICED)
        wait_until(
            lambda: all(tensor(index).search(outlets.series()) for index in measured)
            and "gpu_health healthy" in outlets.annotation()
            and all("extender_serves" in (tmp_path / f"{name}.log").read_text() for name in of),
            lambda: f"{outlets.annotation()}\n{outlets.screen()}\n{outlets.series()}",
        )  # fmt: skip
        fault_s = time.time()
        world(fault_s - start, start).write(scenario)
        missing = expected()
        # Commands take seconds: whoever pauses between two looks would count the pauses.
        while told(outlets, missing, fault_s):
            assert time.time() - fault_s < DEADLINE_S, f"{missing} of {outlets}"
            time.sleep(0.2)
        silent = (COUNTER, NAN, OVER, OLD)
        wait_until(
            lambda: not any(tensor(index).search(outlets.series()) for index in silent), outlets.series
        )
        assert tensor(XID).search(outlets.series()), "the others go on"
        check_lost(outlets)
        check_alerts(tmp_path, outlets.series())
        check_absent(env, Process(tmp_path / "collect.log").figures())
        check_report(env, tmp_path)
    slow = "reason=slow" in (tmp_path / "collect.log").read_text()
    late = {
        what: s
        for what, s in outlets.came_s.items()
        if not what.startswith(COMMANDS)
        and s
        >= IN_TIME_S
        + COUNTED_S * any(f"gpu {index}" in what for index in WITHOUT_AN_EVENT)
        # What takes a busy machine long to make is made again after ten times as long.
        + 10 * outlets.page_s * what.startswith("page")
    }
    assert slow or not late, outlets.came_s
    assert {outlets.asked[name] for name in COMMANDS} == {1}, "a command says what all others have told"
    events = {int(row.split()[0]) for row in outlets.sql().splitlines()}
    assert events == {SLICED, *VERDICTS}, "nothing is told of GPUs that are in order"
    for name in commands:
        assert "Traceback" not in (tmp_path / f"{name}.log").read_text()
