"""Goal: every setting takes a good value and refuses a bad one, by variable and by flag, and says which."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.contract.errors import DutycycleError, SettingError
from dutycycle.contract.settings.groups import PREFIX, Settings
from dutycycle.contract.settings.load import load, near_misses
from dutycycle.contract.settings.models import ModelSetting
from dutycycle.contract.settings.secret import Secret

FLAGS = {"models": "model"}
"""Flags that are given once for each of several."""
HERE = str(Path(__file__).parent)
FILE = __file__
NAMES = [field.name for field in fields(Settings)]
SECRET = {field.name for field in fields(Settings) if field.metadata["secret"]}

GOOD: list[tuple[str, str, Any]] = [
    ("broker", "kafka://a:9092,b:9093", "kafka://a:9092,b:9093"),
    ("broker", "kafka+ssl://kafka.example.org:9093", "kafka+ssl://kafka.example.org:9093"),
    ("broker", "localhost:9092", "kafka://localhost:9092"),
    ("broker", "kafka://[::1]:9092", "kafka://[::1]:9092"),
    ("tls_ca", FILE, FILE),
    ("tls_cert", FILE, FILE),
    ("tls_key", FILE, FILE),
    ("sasl_mechanism", "SCRAM-SHA-512", "SCRAM-SHA-512"),
    ("sasl_username", "duty", "duty"),
    ("sasl_password", "hunter 2", "hunter 2"),
    ("topic_prefix", "team-a.", "team-a."),
    ("topic_prefix", "", ""),
    ("partitions", "1", 1),
    ("replication", "3", 3),
    ("node", "gpu-a.example.org", "gpu-a.example.org"),
    ("interval", "500ms", 0.5),
    ("interval", "2", 2.0),
    ("host_root", HERE, HERE),
    ("containers", "all", "all"),
    ("prometheus", "http://prometheus:9090/", "http://prometheus:9090"),
    ("prometheus", "https://user:pass@host/prefix", "https://user:pass@host/prefix"),
    ("prometheus_ca", FILE, FILE),
    ("prometheus_username", "reader", "reader"),
    ("prometheus_password", "hunter 2", Secret("hunter 2")),
    ("prometheus_token", "t0ken", Secret("t0ken")),
    ("prometheus_headers", "X-Scope-OrgID: a|b\nX-More: 1", Secret("X-Scope-OrgID: a|b\nX-More: 1")),
    ("prometheus_cluster", "cluster", "cluster"),
    ("prometheus_cluster", "cluster=eu west/1", "cluster=eu west/1"),
    ("prometheus_names", "a:b = DCGM_X, c=d", (("a:b", "DCGM_X"), ("c", "d"))),
    ("remote_write_headers", "X-Scope-OrgID: a", Secret("X-Scope-OrgID: a")),
    ("demo", "on", "on"),
    ("signals", "off", "off"),
    ("kubernetes", "off", "off"),
    ("pod_resources", "/run/kubelet.sock", "/run/kubelet.sock"),
    ("cuda_logs", HERE, HERE),
    ("steps_socket", "/run/steps.sock", "/run/steps.sock"),
    ("spool", "/var/spool", "/var/spool"),
    ("spool_bytes", "64MB", 64 * 1024**2),
    ("spool_bytes", "1.5GiB", 3 * 1024**3 // 2),
    ("windows", "10s,1m,10m", (10.0, 60.0, 600.0)),
    ("windows", "60", (60.0,)),
    ("lateness", "0", 0.0),
    ("snapshot_interval", "0.5s", 0.5),
    ("session_timeout", "30s", 30.0),
    ("retire", "1d", 86_400.0),
    ("evict", "2d", 172_800.0),
    ("evict_pods", "3d", 259_200.0),
    ("evict_jobs", "30d", 2_592_000.0),
    ("price_gpu_hour", "2.5", 2.5),
    ("price_kwh", "0", 0.0),
    ("price_kwh", ".3", 0.3),
    ("price_kwh", "3.", 3.0),
    ("price_gpu_models", "H200=4.1, A100 80GB=2", (("H200", 4.1), ("A100 80GB", 2.0))),
    ("price_gpu_models", "", ()),
    ("price_cpu_hour", "0.04", 0.04),
    ("usage_hours", "30d", 30 * 86_400.0),
    ("usage_days", "730d", 730 * 86_400.0),
    ("evaluate", "30s", 30.0),
    ("cycles_metrics", "power_w, gpu_util_pct", ("gpu_util_pct", "power_w")),
    ("cycles_window", "1200", 1200),
    ("cycles_shortest", "4", 4),
    ("cycles_early", "off", "off"),
    ("cycles_confidence", "0.8", 0.8),
    ("cycles_confidence_part", "1", 1.0),
    ("cycles_confidence_begun", ".5", 0.5),
    ("cycles_misses", "5", 5),
    ("trends_metrics", "power_w", ("power_w",)),
    ("trends_horizons", "5s,1m", (5.0, 60.0)),
    (
        "models",
        "a=gpu/power_w,temp_c: drift.ADWIN(1); b-2 = power_w: x:y",
        (
            ModelSetting("a", "gpu", ("power_w", "temp_c"), "drift.ADWIN(1)"),
            ModelSetting("b-2", None, ("power_w",), "x:y"),
        ),
    ),
    ("models_lags", "24", 24),
    ("models_seed", "7", 7),
    ("models_bytes", "64kB", 65536),
    ("records", "sqlite:////var/lib/records.db", "sqlite:////var/lib/records.db"),
    ("records", "postgresql+psycopg://u:p@h/d", "postgresql+psycopg://u:p@h/d"),
    ("annotations", "on", "on"),
    ("annotation_prefix", "gpu.example.org", "gpu.example.org"),
    ("annotation_interval", "1m", 60.0),
    ("annotation_heartbeat", "2m", 120.0),
    ("annotation_heartbeat", "0", 0.0),
    ("annotation_rate", "20", 20),
    ("kubernetes_events", "off", "off"),
    ("metrics_window", "10s", 10.0),
    ("metrics_stale", "2m", 120.0),
    ("metrics_pods", "100", 100),
    ("remote_write", "https://u:p@mimir/api/v1/push", "https://u:p@mimir/api/v1/push"),
    ("remote_write_ca", FILE, FILE),
    ("remote_write_username", "writer", "writer"),
    ("remote_write_password", "hunter 2", Secret("hunter 2")),
    ("remote_write_token", "t0ken", Secret("t0ken")),
    ("remote_write_labels", "cluster=eu-1, __replica__ = b", (("cluster", "eu-1"), ("__replica__", "b"))),
    ("remote_write_labels", "", ()),
    ("remote_write_interval", "1m", 60.0),
    ("remote_write_bytes", "8MB", 8 * 1024**2),
    ("pod_labels", "team, example.com/cost-centre", ("team", "example.com/cost-centre")),
    ("pod_labels", "", ()),
    ("adapter_cert", FILE, FILE),
    ("extender_cert", FILE, FILE),
    ("webhook_cert", FILE, FILE),
    ("webhook_key", FILE, FILE),
    ("webhook_client_ca", FILE, FILE),
    ("webhook_policy", FILE, FILE),
    ("webhook_team_label", "example.com/team", "example.com/team"),
    ("webhook_listen", ":8889", "127.0.0.1:8889"),
    ("extender_client_ca", FILE, FILE),
    ("adapter_key", FILE, FILE),
    ("extender_key", FILE, FILE),
    ("adapter_listen", ":6443", "127.0.0.1:6443"),
    ("extender_listen", ":6443", "127.0.0.1:6443"),
    ("listen", "0.0.0.0:9000", "0.0.0.0:9000"),
    ("listen", "[::1]:9000", "[::1]:9000"),
    ("listen", ":0", "127.0.0.1:0"),
    ("listen", "off", "off"),
]

BAD: list[tuple[str, str, str]] = [
    ("broker", "", "kafka://host:9092"),
    ("broker", "http://a:9092", "kafka://host:9092"),
    ("broker", "a", "kafka://host:9092"),
    ("broker", "a:0", "kafka://host:9092"),
    ("broker", "a:70000", "kafka://host:9092"),
    ("broker", "a:9092,", "kafka://host:9092"),
    ("broker", "kafka://", "kafka://host:9092"),
    ("tls_ca", "/no/such/ca.pem", "cannot be read: No such file"),
    ("tls_cert", HERE, "cannot be read: Is a directory"),
    ("tls_key", "", "cannot be read"),
    ("sasl_mechanism", "plain", "one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
    ("sasl_username", "", "is empty"),
    ("sasl_password", " ", "is empty"),
    ("topic_prefix", "a/b", "letters, digits"),
    ("topic_prefix", "x" * 201, "letters, digits"),
    ("partitions", "0", "from 1 to 10000"),
    ("partitions", "eight", "from 1 to 10000"),
    ("partitions", "8.5", "from 1 to 10000"),
    ("replication", "16", "from 1 to 15"),
    ("node", "a/b", "host name"),
    ("node", "-a", "host name"),
    ("node", "", "host name"),
    ("node", "a" * 254, "host name"),
    ("interval", "0", "from 0.05s to 3600s"),
    ("interval", "-1s", "a duration such as"),
    ("interval", "1 hour", "a duration such as"),
    ("interval", "nan", "a duration such as"),
    ("interval", "9" * 400, "from 0.05s to 3600s"),
    ("host_root", FILE, "no such folder"),
    ("containers", "docker", "one of pods, containers, all"),
    ("prometheus_ca", "/does/not/exist", "cannot be read"),
    ("cuda_logs", "/does/not/exist", "no such folder"),
    ("prometheus_username", " ", "is empty"),
    ("prometheus_password", "", "is empty"),
    ("prometheus_token", "", "is empty"),
    ("prometheus_headers", "", "is empty"),
    ("prometheus_headers", "X-Scope-OrgID", "one a line"),
    ("prometheus_headers", "X Y: 1", "one a line"),
    ("prometheus_cluster", "no label", "the name of a label"),
    ("prometheus_cluster", "cluster=", "the name of a label"),
    ("prometheus_cluster", 'cluster="eu"', "the name of a label"),
    ("prometheus_names", "a", "pairs of different names"),
    ("prometheus_names", "a=b,a=c", "pairs of different names"),
    ("prometheus_names", "", "pairs of different names"),
    ("remote_write_headers", "\n", "is empty"),
    ("prometheus", "prometheus:9090", "http://prometheus:9090"),
    ("prometheus", "http://", "http://prometheus:9090"),
    ("prometheus", "http://[::1", "IPv6"),
    ("prometheus", "http://host:port", "port"),
    ("prometheus", "http://host:99999", "ort"),
    ("signals", "yes", "expected one of on, off"),
    ("demo", "yes", "expected one of on, off"),
    ("kubernetes", "yes", "one of auto, on, off"),
    ("pod_resources", "", "is empty"),
    ("steps_socket", "", "is empty"),
    ("spool", "", "is empty"),
    ("spool_bytes", "1000", "at least 1048576 bytes"),
    ("spool_bytes", "much", "a size such as"),
    ("spool_bytes", "9" * 400 + "GB", "a size such as"),
    ("windows", "60s,10s", "each larger than the one before"),
    ("windows", "10s,10s", "each larger than the one before"),
    ("windows", "1.5s", "whole seconds"),
    ("windows", "", "a duration such as"),
    ("windows", "1h", "from 1s to 600s"),
    ("lateness", "2h", "from 0s to 3600s"),
    ("snapshot_interval", "0", "from 0.1s to 300s"),
    ("session_timeout", "1s", "from 2s to 300s"),
    ("retire", "1s", "from 10s to 86400s"),
    ("evict", "1s", "from 10s to 31536000s"),
    ("evict_pods", "soon", "a duration such as"),
    ("evict_jobs", "400d", "from 10s to 31536000s"),
    ("records", "records.db", "sqlite:///path"),
    ("records", "mysql://u:p@h/d", "postgresql+psycopg://"),
    ("annotations", "true", "one of auto, on, off"),
    ("annotation_prefix", "Dutycycle.IO", "a DNS name in lower case"),
    ("annotation_prefix", "a..b", "a DNS name in lower case"),
    ("annotation_prefix", "a/b", "a DNS name in lower case"),
    ("annotation_interval", "0", "from 1s to 86400s"),
    ("annotation_heartbeat", "2d", "from 0s to 86400s"),
    ("price_gpu_hour", "2.50 EUR", "a number, such as 2.5"),
    ("price_kwh", "-1", "a number, such as 2.5"),
    ("price_cpu_hour", "free", "a number, such as 2.5"),
    ("price_gpu_models", "H200", "each model once, with its price, such as H200=4.1,A100=2.5"),
    ("price_gpu_models", "H200=1,h200=2", "each model once"),
    ("price_gpu_models", "%=1", "each model once"),
    ("usage_hours", "1h", "a duration from 86400s"),
    ("usage_days", "1h", "a duration from 86400s"),
    ("evaluate", "0.5s", "from 1s to 600s"),
    ("cycles_metrics", "Power W", "names of metrics"),
    ("cycles_metrics", "", "names of metrics"),
    ("cycles_window", "1201", "a multiple of 4, such as 1200"),
    ("cycles_window", "20", "from 64 to 10000"),
    ("cycles_shortest", "2", "from 3 to 100"),
    ("cycles_early", "yes", "on, off"),
    ("cycles_confidence", "90", "from 0 to 1"),
    ("cycles_confidence_part", "1.1", "from 0 to 1"),
    ("cycles_confidence_begun", "nan", "from 0 to 1"),
    ("cycles_misses", "0", "from 1 to 100"),
    ("trends_metrics", ",", "names of metrics"),
    ("trends_horizons", "1.5s", "whole seconds"),
    ("models", "a: drift.ADWIN()", "expected NAME=METRIC: SPEC"),
    ("models", "a=power_w,power_w: x:y", "there twice"),
    ("models_lags", "0", "from 1 to 1000"),
    ("models_seed", "-1", "from 0 to"),
    ("models_bytes", "10", "at least 1024 bytes"),
    ("annotation_rate", "0", "from 1 to 10000"),
    ("kubernetes_events", "auto", "on, off"),
    ("metrics_window", "0", "from 1s to 600s"),
    ("metrics_stale", "1s", "from 5s to 3600s"),
    ("metrics_pods", "-1", "from 0 to 1000000"),
    ("remote_write", "mimir/api/v1/push", "a URL such as"),
    ("remote_write_ca", "/does/not/exist", "cannot be read"),
    ("remote_write_username", "", "is empty"),
    ("remote_write_password", " ", "is empty"),
    ("remote_write_token", "", "is empty"),
    ("remote_write_labels", "cluster", "such as cluster=a"),
    ("remote_write_labels", "a-b=c", "such as cluster=a"),
    ("remote_write_labels", "a=", "such as cluster=a"),
    ("remote_write_labels", "a=b,a=c", "a label is there twice"),
    ("remote_write_interval", "0", "from 1s to 300s"),
    ("remote_write_bytes", "1000", "at least 1048576 bytes"),
    ("pod_labels", "team;cost", "separated by commas"),
    ("pod_labels", "a-b,a_b", "the same name on a series"),
    ("adapter_cert", HERE, "cannot be read: Is a directory"),
    ("extender_cert", HERE, "cannot be read: Is a directory"),
    ("webhook_cert", HERE, "cannot be read: Is a directory"),
    ("webhook_key", "", "cannot be read"),
    ("webhook_client_ca", HERE, "cannot be read: Is a directory"),
    ("webhook_policy", "/does/not/exist", "cannot be read"),
    ("webhook_team_label", "", "is empty"),
    ("webhook_listen", "off", "expected host:port"),
    ("extender_client_ca", HERE, "cannot be read: Is a directory"),
    ("adapter_key", "", "cannot be read"),
    ("extender_key", "", "cannot be read"),
    ("adapter_listen", "off", "expected host:port"),
    ("extender_listen", "off", "expected host:port"),
    ("listen", "9000", "or off"),
    ("listen", "127.0.0.1:65536", "or off"),
    ("listen", "http://127.0.0.1:80", "or off"),
]

COMPANIONS = {
    "sasl_mechanism": {"DUTYCYCLE_SASL_USERNAME": "u", "DUTYCYCLE_SASL_PASSWORD": "p"},
    "prometheus_username": {"DUTYCYCLE_PROMETHEUS_PASSWORD": "p"},
    "prometheus_password": {"DUTYCYCLE_PROMETHEUS_USERNAME": "u"},
    "remote_write_username": {"DUTYCYCLE_REMOTE_WRITE_PASSWORD": "p"},
    "remote_write_password": {"DUTYCYCLE_REMOTE_WRITE_USERNAME": "u"},
    "tls_cert": {"DUTYCYCLE_TLS_KEY": FILE},
    "tls_key": {"DUTYCYCLE_TLS_CERT": FILE},
}


def variable(name: str) -> str:
    return PREFIX + name.upper()


def test_the_tables_cover_every_setting() -> None:
    assert {name for name, *_ in GOOD} == set(NAMES)
    assert {name for name, *_ in BAD} == set(NAMES)


@pytest.mark.parametrize(("name", "text", "value"), GOOD)
def test_good_values(name: str, text: str, value: Any) -> None:
    environ = COMPANIONS.get(name, {})
    assert getattr(load(environ | {variable(name): text}), name) == value
    assert getattr(load(environ, {name: text}), name) == value


@pytest.mark.parametrize(("name", "text", "right"), BAD)
def test_bad_values(name: str, text: str, right: str) -> None:
    flag = "--" + FLAGS.get(name, name).replace("_", "-")
    for source, environ, flags in (
        (variable(name), {variable(name): text}, {}),
        (flag, {}, {name: text}),
    ):
        with pytest.raises(SettingError) as caught:
            load(COMPANIONS.get(name, {}) | environ, flags)
        message = str(caught.value)
        assert message.startswith(f"{source}={'…' if name in SECRET else repr(text)}: ")
        assert right in message
        assert isinstance(caught.value, DutycycleError)


def test_nothing_given_is_all_defaults() -> None:
    settings = load({})
    assert settings == Settings(node=settings.node)
    assert settings.node


def test_a_flag_beats_a_variable_beats_a_file_beats_the_default(tmp_path: Path) -> None:
    file = tmp_path / "node"
    file.write_text("from-file\n", encoding="utf-8")
    from_file = {"DUTYCYCLE_NODE_FILE": str(file)}
    from_variable = from_file | {"DUTYCYCLE_NODE": "from-variable"}
    assert load(from_file).node == "from-file"
    assert load(from_variable).node == "from-variable"
    assert load(from_variable, {"node": "from-flag"}).node == "from-flag"


def test_other_variables_are_none_of_ours() -> None:
    assert load({"NODE": "x", "BROKER": "y", "DUTYCYCLE": "z"}).broker is None


@given(st.dictionaries(st.sampled_from(NAMES), st.text(max_size=30), max_size=3))
def test_any_text_is_a_value_or_a_setting_error(flags: dict[str, str]) -> None:
    try:
        load({}, flags)
    except SettingError as error:
        assert str(error)  # noqa: PT017 - a good value is allowed as well


@pytest.mark.parametrize(
    ("environ", "missing"),
    [
        ({"DUTYCYCLE_SASL_MECHANISM": "PLAIN"}, "DUTYCYCLE_SASL_USERNAME"),
        ({"DUTYCYCLE_PROMETHEUS_USERNAME": "u"}, "DUTYCYCLE_PROMETHEUS_PASSWORD"),
        ({"DUTYCYCLE_PROMETHEUS_PASSWORD": "p"}, "DUTYCYCLE_PROMETHEUS_USERNAME"),
        (
            {f"DUTYCYCLE_PROMETHEUS_{name}": "x" for name in ("USERNAME", "PASSWORD", "TOKEN")},
            "DUTYCYCLE_PROMETHEUS_TOKEN",
        ),
        ({"DUTYCYCLE_REMOTE_WRITE_PASSWORD": "p"}, "DUTYCYCLE_REMOTE_WRITE_USERNAME"),
        (
            {f"DUTYCYCLE_REMOTE_WRITE_{name}": "x" for name in ("USERNAME", "PASSWORD", "TOKEN")},
            "DUTYCYCLE_REMOTE_WRITE_TOKEN",
        ),
        ({"DUTYCYCLE_SASL_MECHANISM": "PLAIN", "DUTYCYCLE_SASL_USERNAME": "u"}, "DUTYCYCLE_SASL_PASSWORD"),
        ({"DUTYCYCLE_TLS_CERT": FILE}, "DUTYCYCLE_TLS_KEY"),
        ({"DUTYCYCLE_TLS_KEY": FILE}, "DUTYCYCLE_TLS_CERT"),
    ],
)
def test_settings_that_go_together(environ: dict[str, str], missing: str) -> None:
    with pytest.raises(SettingError, match=missing):
        load(environ)


def test_a_host_whose_name_is_no_node_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "my host!")
    with pytest.raises(SettingError, match="give DUTYCYCLE_NODE"):
        load({})
    assert load({"DUTYCYCLE_NODE": "a"}).node == "a"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("DUTYCYCLE_INTERVALL", "DUTYCYCLE_INTERVAL"),
        ("DUTYCYCLE_BROKERS", "DUTYCYCLE_BROKER"),
        ("DUTYCYCLE_SASL_PASWORD_FILE", "DUTYCYCLE_SASL_PASSWORD_FILE"),
        ("DUTYCYCLE_TOPICPREFIX", "DUTYCYCLE_TOPIC_PREFIX"),
    ],
)
def test_near_misses_are_told(name: str, near: str) -> None:
    assert near_misses({name: "x", "PATH": "y", "DUTYCYCLE_NODE": "a"}) == [(name, near)]


@pytest.mark.parametrize(
    "name",
    [
        *(variable(name) for name in NAMES),
        "DUTYCYCLE_SASL_PASSWORD_FILE",
        "DUTYCYCLE_SOMETHING_ELSE",
        "DUTYCYCLE_TEST_BROKER",
        "DUTYCYCLE_PORT",
        "DUTYCYCLE_SERVICE_HOST",
        "DUTYCYCLE_PORT_9092_TCP_ADDR",
        "NODE",
    ],
)
def test_what_is_no_near_miss(name: str) -> None:
    assert near_misses({name: "x"}) == []


def test_every_setting_is_read_by_something() -> None:
    root = Path(__file__).parents[3]
    folders = ("collectors", "dutycycle", "sinks", "streams")
    code = "".join(
        path.read_text()
        for folder in folders
        for path in (root / folder).rglob("*.py")
        if path.parent.name != "settings"
    )
    assert [one.name for one in fields(Settings) if f".{one.name}" not in code] == []
