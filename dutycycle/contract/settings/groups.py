"""Declares every setting, in a group for each part of Dutycycle. Durations are seconds, sizes bytes.

A setting has one name everywhere: the field ``topic_prefix`` is the variable ``DUTYCYCLE_TOPIC_PREFIX`` and
the flag ``--topic-prefix``, with no group in it. So ``Settings`` inherits the groups instead of holding them,
and what needs one group takes that one.
"""

from dataclasses import dataclass, field
from typing import Any

from dutycycle.contract.analyses import ANALYSES
from dutycycle.contract.settings import parsers
from dutycycle.contract.settings.models import ModelSetting
from dutycycle.contract.settings.parsers import Parser
from dutycycle.contract.settings.secret import Secret

PREFIX = "DUTYCYCLE_"


def _setting(
    default: Any,
    parse: Parser,
    help_text: str,
    *,
    secret: bool = False,
    flag: str | None = None,
    bare: str | None = None,
) -> Any:
    """Return a field with how its text is read and what the help says; a ``secret`` is never shown. ``flag``:
    where that has another name, as it is given once for each of several. ``bare``: what the flag without a
    value means, None where it needs one."""
    metadata = {"parse": parse, "help": help_text, "secret": secret, "flag": flag, "bare": bare}
    return field(default=default, repr=not secret, metadata=metadata)


def _file(help_text: str) -> Any:
    """Return the field of a file that can be read, such as a certificate; None where it is not given."""
    return _setting(None, parsers.readable_file, help_text)


def _switch(help_text: str, *, on: bool = False) -> Any:
    """Return the field of what is ``on`` or ``off``."""
    return _setting("on" if on else "off", parsers.choice("on", "off"), help_text)


_USERNAME = "user name for basic authentication"
_PASSWORD = "password for basic authentication; prefer …_FILE"  # noqa: S105 - the text of its help
_TOKEN = "bearer token; prefer …_FILE, which is read again as it changes"  # noqa: S105

_HEADERS = "more HTTP headers, one a line, such as X-Scope-OrgID: team-a; prefer …_FILE"


@dataclass(frozen=True, kw_only=True)
class KafkaSettings:
    """The broker, how to reach it, and the topics."""

    broker: str | None = _setting(
        None, parsers.broker, "Kafka: kafka://host:9092,host:9092, or kafka+ssl://… for TLS"
    )
    tls_ca: str | None = _file("CA certificates (PEM) that signed those of the brokers")
    tls_cert: str | None = _file("client certificate (PEM) for mutual TLS")
    tls_key: str | None = _file("private key (PEM) of the client certificate")
    sasl_mechanism: str | None = _setting(
        None,
        parsers.choice("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        "how to authenticate to Kafka",
    )
    sasl_username: str | None = _setting(None, parsers.name, "user name for SASL")
    sasl_password: str | None = _setting(
        None, parsers.password_for_good, "password for SASL; prefer …_FILE", secret=True
    )
    sasl_token: Secret | None = _setting(
        None,
        parsers.token,
        "token for OAUTHBEARER, for user and password; prefer …_FILE, which is read again as it changes",
        secret=True,
    )
    topic_prefix: str = _setting("dutycycle.", parsers.topic_prefix, "prefix of all topic names")
    partitions: int = _setting(8, parsers.Whole(1, 10_000), "partitions of a topic that is created")
    replication: int = _setting(1, parsers.Whole(1, 15), "replicas of a topic that is created")


@dataclass(frozen=True, kw_only=True)
class CollectorSettings:
    """What is measured on a node, and from which source."""

    node: str = _setting("", parsers.node, "this node's name; default: the host's")
    interval: float = _setting(1.0, parsers.Seconds(0.05, 3600), "between two ticks of the collector")
    host_root: str = _setting("/", parsers.folder, "where the host's /proc and /sys are mounted")
    containers: str = _setting(
        "pods",
        parsers.choice("pods", "containers", "all"),
        "which cgroups to report: Kubernetes pods, also other containers, or jobs of Slurm, "
        "systemd units and slices too",
    )
    demo: str = _switch("eight simulated GPUs with known jobs, instead of this machine")
    kubernetes: str = _setting(
        "auto", parsers.choice("auto", "on", "off"), "talk to the API server; auto: where there is one"
    )
    pod_labels: tuple[str, ...] = _setting(
        (), parsers.label_keys, "labels of pods for their records and series, such as team,cost-centre"
    )
    pod_resources: str = _setting(
        "auto", parsers.path, "the kubelet's pod-resources socket; auto: where the host has one; or off"
    )
    gpu_health: str = _switch("read Xids, ECC errors and other faults of GPUs, and tell of them", on=True)
    gpu_activity: str = _setting(
        "on",
        parsers.gpu_activity,
        "read what multiprocessors, tensor cores and memory do, from Hopper on: on, off, or the metrics, "
        "such as sm_active_pct,tensor_active_pct; -fp64_active_pct leaves one out",
    )
    cuda_logs: str | None = _setting(
        None, parsers.folder, "folder with the logs of CUDA intercept libraries: <folder>/<any>/metrics.log"
    )
    steps_socket: str = _setting(
        "auto",
        parsers.path,
        "socket for steps of training loops; auto: /run/dutycycle/steps.sock where that folder is; or off",
    )
    spool: str | None = _setting(
        None, parsers.path, "folder that keeps samples while the broker is unreachable"
    )
    spool_bytes: int = _setting(
        256 * 1024**2,
        parsers.size(1024**2),
        "the limit of the spool; beyond it the oldest samples are dropped",
    )


@dataclass(frozen=True, kw_only=True)
class PrometheusSettings:
    """A Prometheus as the source of samples, instead of this node, and how to reach it."""

    prometheus: str | None = _setting(
        None,
        parsers.http_url,
        "a Prometheus that scrapes dcgm-exporter and cAdvisor; read instead of NVML, and by the page for "
        "browsers for the past of a GPU",
        secret=True,
    )
    prometheus_ca: str | None = _file("CA certificates (PEM) that signed that of Prometheus")
    prometheus_username: str | None = _setting(None, parsers.name, _USERNAME)
    prometheus_password: Secret | None = _setting(None, parsers.password, _PASSWORD, secret=True)
    prometheus_token: Secret | None = _setting(None, parsers.token, _TOKEN, secret=True)
    prometheus_headers: Secret | None = _setting(None, parsers.http_headers, _HEADERS, secret=True)
    prometheus_cluster: str | None = _setting(
        None,
        parsers.cluster_label,
        "the label that tells clusters apart (default: found where there are several); or LABEL=VALUE",
    )
    prometheus_names: tuple[tuple[str, str], ...] = _setting(
        (),
        parsers.name_pairs,
        "names of an exporter with what they stand for: my_gpu_busy=DCGM_FI_DEV_GPU_UTIL,my_node=Hostname",
    )


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """Analyses, windows, state, and when the state of silent nodes, pods and jobs is removed."""

    analyses: tuple[str, ...] = _setting(
        tuple(ANALYSES),
        parsers.analyses,
        "what is computed; the rest costs nothing, and has no topics. Sinks must be given the same",
    )
    windows: tuple[float, ...] = _setting(
        (10.0, 60.0), parsers.SeveralSeconds(parsers.Seconds(1, 600)), "lengths of the tumbling windows"
    )
    windows_metrics: tuple[str, ...] = _setting(
        (), parsers.metric_names, "metrics that have windows, such as gpu_util_pct,power_w; default: all"
    )
    lateness: float = _setting(10.0, parsers.Seconds(0, 3600), "how late a sample may be for its window")
    snapshot_interval: float = _setting(
        30.0,
        parsers.Seconds(0.1, 300),
        "between two commits of state and offsets; results come sooner",
    )
    lost_state: str = _setting(
        "refuse",
        parsers.choice("refuse", "begin-anew"),
        "what a worker does where the state of committed records is gone: end, or read the source from the "
        "first record that is there",
    )
    session_timeout: float = _setting(
        10.0,
        parsers.Seconds(2, 300),
        "silence after which a worker's partitions go to others; brokers refuse less than 6s by default",
    )
    retire: float = _setting(600.0, parsers.Seconds(10, 86_400), "silence after which a series is dropped")
    evict: float = _setting(
        86_400.0, parsers.Seconds(10, 31_536_000), "silence after which a node's state is removed"
    )
    evict_pods: float = _setting(
        3 * 86_400.0,
        parsers.Seconds(10, 31_536_000),
        "the same for a pod; longer than the retention of samples",
    )
    evict_jobs: float = _setting(
        7 * 86_400.0,
        parsers.Seconds(10, 31_536_000),
        "the same for a job; long enough for a pause over a weekend",
    )
    price_gpu_hour: float | None = _setting(
        None,
        parsers.price,
        "price of a GPU per hour, in any currency: insights then include the cost of idle time",
    )
    price_kwh: float | None = _setting(
        None, parsers.price, "price of a kilowatt hour of GPU energy, in the same currency"
    )


@dataclass(frozen=True, kw_only=True)
class OperatorSettings:
    """How trends and cycles are computed, for experiments.

    What docs/insight.md says of them was measured with the defaults.
    """

    evaluate: float = _setting(
        10.0, parsers.Seconds(1, 600), "between two evaluations of trends and cycles, in the data's own time"
    )
    cycles_metrics: tuple[str, ...] = _setting(
        (), parsers.metric_names, "metrics that cycles are looked for in, such as gpu_util_pct,power_w"
    )
    cycles_window: int = _setting(
        600,
        parsers.multiple_of_4(64, 10_000),
        "ticks that cycles are looked for in, a multiple of 4: a period is at most a third of it",
    )
    cycles_shortest: int = _setting(3, parsers.Whole(3, 100), "ticks of the shortest period")
    cycles_early: str = _switch("find a cycle that has begun after two and a half periods", on=True)
    cycles_confidence: float = _setting(
        0.9, parsers.share, "confidence that a cycle needs that fills the window, to be published"
    )
    cycles_confidence_part: float = _setting(
        0.97, parsers.share, "the same for a cycle in a part of the window"
    )
    cycles_confidence_begun: float = _setting(0.95, parsers.share, "the same for a cycle that has begun")
    cycles_misses: int = _setting(
        3, parsers.Whole(1, 100), "evaluations in a row without the cycle, after which it counts as lost"
    )
    trends_metrics: tuple[str, ...] = _setting(
        (), parsers.metric_names, "metrics that are forecast, such as gpu_util_pct,mem_used_bytes"
    )
    trends_horizons: tuple[float, ...] = _setting(
        (10.0, 30.0, 300.0), parsers.SeveralSeconds(parsers.Seconds(1, 3600)), "how far ahead forecasts reach"
    )
    models: tuple[ModelSetting, ...] = _setting(
        (),
        parsers.models,
        "River models to run as well, NAME=[KIND/]METRIC[,METRIC]: SPEC, separated by ; (experiments.md)",
        flag="model",
    )
    models_lags: int = _setting(
        12,
        parsers.Whole(1, 1000),
        "how many of the newest values of its metric a regressor among the models gets",
    )
    models_seed: int = _setting(
        0, parsers.Whole(0, 2**31), "seed for models that take one and are given none"
    )
    models_bytes: int = _setting(
        1024**2, parsers.size(1024), "maximum size of the state of a model, for one subject"
    )


@dataclass(frozen=True, kw_only=True)
class SinkSettings:
    """Where results are written."""

    records: str | None = _setting(
        None, parsers.records_url, "SQLAlchemy URL of the peak records", secret=True
    )
    price_gpu_models: tuple[tuple[str, float], ...] = _setting(
        (),
        parsers.model_prices,
        "prices of GPUs per hour by model, such as H200=4.1,A100=2.5; of usage alone",
    )
    price_cpu_hour: float | None = _setting(
        None, parsers.price, "price of a CPU core per hour, in the same currency as the GPU's"
    )
    usage_hours: float = _setting(
        90 * 86_400.0,
        parsers.Seconds(86_400, 315_360_000),
        "so long usage is kept by the hour, and then by the day",
    )
    usage_days: float = _setting(
        1825 * 86_400.0,
        parsers.Seconds(86_400, 3_153_600_000),
        "so long usage and peaks of nodes are kept by the day",
    )
    annotations: str = _setting(
        "auto",
        parsers.choice("auto", "on", "off"),
        "annotate Kubernetes objects; auto: where there is an API",
    )
    annotation_prefix: str = _setting("dutycycle.io", parsers.dns_name, "prefix of all annotation keys")
    annotation_interval: float = _setting(
        30.0, parsers.Seconds(1, 86_400), "minimum time between two writes to one object"
    )
    annotation_heartbeat: float = _setting(
        60.0,
        parsers.Seconds(0, 86_400),
        "minimum time between renewals of a node's Lease, which says when it was sampled last; 0: no Lease",
    )
    kubernetes_events: str = _switch(
        "write Kubernetes Events on idle pods and on jobs that lost their cycle, where objects are annotated",
        on=True,
    )
    node_labels: str = _switch(
        "keep labels on nodes, where objects are annotated: whether GPUs are idle, throttled, unhealthy"
    )
    annotation_rate: int = _setting(
        50, parsers.Whole(1, 10_000), "maximum of requests per second of one sink to the API server"
    )
    metrics_window: float = _setting(
        60.0, parsers.Seconds(1, 600), "the window whose mean, maximum and p95 are served to Prometheus"
    )
    metrics_stale: float = _setting(
        60.0,
        parsers.Seconds(5, 3600),
        "age of a node's newest sample at which its series end; at least three of its intervals",
    )
    metrics_pods: int = _setting(
        5000, parsers.Whole(0, 1_000_000), "maximum number of pods with series: those that used GPUs most"
    )


@dataclass(frozen=True, kw_only=True)
class RemoteWriteSettings:
    """A receiver that the series are written to, where no Prometheus can scrape them."""

    remote_write: str | None = _setting(
        None,
        parsers.http_url,
        "the whole URL of a receiver of Prometheus' remote write, such as http://host:9090/api/v1/write",
        secret=True,
    )
    remote_write_ca: str | None = _file("CA certificates (PEM) that signed that of the receiver")
    remote_write_username: str | None = _setting(None, parsers.name, _USERNAME)
    remote_write_password: Secret | None = _setting(None, parsers.password, _PASSWORD, secret=True)
    remote_write_token: Secret | None = _setting(None, parsers.token, _TOKEN, secret=True)
    remote_write_headers: Secret | None = _setting(None, parsers.http_headers, _HEADERS, secret=True)
    remote_write_labels: tuple[tuple[str, str], ...] = _setting(
        (), parsers.series_labels, "labels that every series gets, such as cluster=a,__replica__=1"
    )
    remote_write_interval: float = _setting(15.0, parsers.Seconds(1, 300), "between two samples of a series")
    remote_write_bytes: int = _setting(
        64 * 1024**2,
        parsers.size(1024**2),
        "memory for samples while the receiver is away; beyond it the oldest are dropped",
    )


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """What answers from the topics: where, and whom."""

    roles: tuple[str, ...] = _setting(
        (), parsers.roles, "what serve does: some of metrics,autoscaler,extender,webhook,web"
    )
    serve_listen: str = _setting(
        "127.0.0.1:8888",
        parsers.address,
        "where kube-scheduler, the API server and browsers are answered: host:port, :0 for any free port",
    )
    serve_cert: str | None = _file(
        "certificate (PEM) for the names that are asked, those of the Services; none is needed on 127.0.0.1"
    )
    serve_key: str | None = _file("private key (PEM) of that certificate")
    serve_plain: str = _switch(
        "on lets web answer others without a certificate: behind a proxy with TLS, or at a port that is "
        "published on this machine alone"
    )
    extender_sick: str = _setting(
        "last",
        parsers.choice("filter", "last", "off"),
        "nodes with a GPU that is not healthy: filter leaves them out, last gives them the lowest score",
    )
    extender_client_ca: str | None = _file(
        "as a kube-scheduler only who has a certificate of this authority (PEM) is answered"
    )
    webhook_client_ca: str | None = _file(
        "of new pods only who has a certificate of this authority (PEM) is answered"
    )
    webhook_policy: str | None = _file("how the order of pods is computed, TOML: see docs/scheduling.md")
    webhook_team_label: str = _setting(
        "team", parsers.name, "label of pods that names their team; name it in DUTYCYCLE_POD_LABELS too"
    )


@dataclass(frozen=True, kw_only=True)
class CullSettings:
    """Workloads that hold GPUs and use none of them, and when they are stopped."""

    cull_namespaces: tuple[str, ...] = _setting(
        (), parsers.namespaces, "namespaces whose idle workloads are stopped, separated by commas"
    )
    cull_after: float = _setting(
        28_800.0,
        parsers.Seconds(600, 30 * 86_400),
        "idle for so long, all GPUs of all pods: then it is announced",
    )
    cull_notice: float = _setting(
        3_600.0, parsers.Seconds(0, 7 * 86_400), "from the announcement to the stop"
    )
    cull_daily: int = _setting(5, parsers.Whole(0, 1000), "so many are stopped on a day (UTC) at most")
    cull_dry_run: str = _switch(
        "on says what would be stopped, by an Event and a log line, and stops nothing", on=True
    )
    cull_ledger: str = _setting(
        "dutycycle-cull",
        parsers.dns_name,
        "ConfigMap of its namespace with what was stopped, by whom and why",
    )


@dataclass(frozen=True, kw_only=True)
class ScreenSettings:
    """The screen of ``up`` and ``top``, and their page for browsers."""

    signals: str = _switch("end processes of this machine by a key, after a question", on=True)
    web: str | None = _setting(
        None,
        parsers.address,
        "serve a page for browsers, too: host:port, :0 for any free port; --web alone: 127.0.0.1:8899",
        bare="127.0.0.1:8899",
    )


@dataclass(frozen=True, kw_only=True)
class ViewerSettings:
    """Who may see the page for browsers."""

    web_token: str | None = _setting(
        None,
        parsers.token_file,
        "file with the token that the page asks for, made with a new one where there is none: who has it "
        "sees all; where others reach the page it needs this, or one of the next",
    )
    web_proxies: tuple[str, ...] = _setting(
        (), parsers.networks, "addresses of the proxies that say who opens the page, such as 10.1.0.0/16"
    )
    web_user_header: str = _setting(
        "X-Forwarded-User", parsers.header_name, "header in which they say who it is"
    )
    web_groups_header: str = _setting(
        "X-Forwarded-Groups", parsers.header_name, "header with his groups, separated by commas"
    )
    web_allow: tuple[str, ...] = _setting(
        (), parsers.names, "which of them may see the page: names, groups as group:ml, or * for all"
    )
    web_kubernetes: str = _switch(
        "on takes tokens of Kubernetes, and shows names only of namespaces where who asks may list pods"
    )
    web_open: int = _setting(
        500,
        parsers.Whole(1, 100_000),
        "how many open pages are kept up to date; one more says that it is not, and tries again",
    )
    web_pools: tuple[str, ...] = _setting(
        (),
        parsers.label_keys,
        "labels of nodes that name their pool, by which the fleet can be filtered; known: those of GKE, EKS, "
        "Karpenter and AKS; the first that a node has counts, and nodes are read from the API server",
    )


@dataclass(frozen=True, kw_only=True)
class StatusSettings:
    """Health pages and metrics of a process."""

    listen: str | None = _setting(
        None,
        parsers.listen,
        "where /healthz, /readyz and /metrics are served: host:port, :0 for any free port, or off; "
        "default: 127.0.0.1, 19470 for collect, 19471 for stream, 19472 for sink, "
        "19473 for sink --metrics, 19474 for adapter, 19475 for extender, 19476 for webhook, "
        "19477 for trial --watch, 19478 for cull, 19479 for serve",
    )
    listen_cert: str | None = _file(
        "certificate (PEM) by which these are served over TLS; renewed where it lies"
    )
    listen_key: str | None = _file("private key (PEM) of that certificate")
    listen_token: Secret | None = _setting(
        None,
        parsers.token,
        "bearer token that /metrics wants and the others do not; prefer …_FILE, read again as it changes",
        secret=True,
    )


@dataclass(frozen=True, kw_only=True)
class Settings(
    StatusSettings,
    ScreenSettings,
    ViewerSettings,
    CullSettings,
    ServeSettings,
    RemoteWriteSettings,
    SinkSettings,
    OperatorSettings,
    StreamSettings,
    PrometheusSettings,
    CollectorSettings,
    KafkaSettings,
):
    """Holds all settings, in the order of the groups above: a dataclass takes its last base first."""


SETTING_GROUPS = (
    KafkaSettings, CollectorSettings, PrometheusSettings, StreamSettings, OperatorSettings,
    SinkSettings, RemoteWriteSettings, ServeSettings, CullSettings,
    ScreenSettings,
    ViewerSettings, StatusSettings,
)  # fmt: skip
"""The groups in the order of the help."""
