"""Goal: every setting takes a good value and refuses a bad one, by variable and by flag, and says which."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.contract.catalogue import USUAL_ACTIVITY
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

GOOD: dict[str, Sequence[tuple[str, Any]]] = {
    **dict.fromkeys(("tls_ca", "tls_cert", "tls_key", "prometheus_ca", "remote_write_ca",
        "serve_cert", "serve_key", "webhook_client_ca", "webhook_policy", "extender_client_ca",
        "listen_cert", "listen_key"), ((FILE, FILE),)),
    "web_token": [(FILE, FILE), (f"{HERE}/no-token-yet", f"{HERE}/no-token-yet")],
    "listen_token": [("t0ken", Secret("t0ken"))], "cull_ledger": [("stops", "stops")],
    "cull_namespaces": [("ml, vision", ("ml", "vision")), ("", ())], "cull_after": [("12h", 43_200.0)],
    "cull_notice": [("0s", 0.0)], "cull_daily": [("0", 0)], "cull_dry_run": [("off", "off")],
    "broker": [("kafka://a:9092,b:9093", "kafka://a:9092,b:9093"),
        ("kafka+ssl://kafka.example.org:9093", "kafka+ssl://kafka.example.org:9093"),
        ("localhost:9092", "kafka://localhost:9092"), ("kafka://[::1]:9092", "kafka://[::1]:9092"),
        ("a:9092, b:9092\n", "kafka://a:9092,b:9092")],
    "sasl_mechanism": [("SCRAM-SHA-512", "SCRAM-SHA-512")],
    "sasl_username": [("duty", "duty"), (" duty\n", "duty"), ("~duty", "~duty")],
    "sasl_password": [("hunter 2", "hunter 2"), ('"x"\r\n', '"x"'), (" ~x \n", " ~x ")],
    "topic_prefix": [("team-a.", "team-a."), ("", "")],
    "partitions": [("1", 1), (" 4\n", 4)], "replication": [("3", 3)],
    "node": [("gpu-a.example.org", "gpu-a.example.org")],
    "interval": [("500ms", 0.5), ("2", 2.0)], "host_root": [(HERE, HERE)], "cuda_logs": [(HERE, HERE)],
    "containers": [("all", "all")], "gpu_health": [("off", "off")],
    "extender_sick": [("filter", "filter")],
    "gpu_activity": [("off", "off"), ("tensor_active_pct, sm_active_pct", "sm_active_pct,tensor_active_pct"),
                     ("-fp64_active_pct, -fp16_active_pct, enc_util_pct",
                      ",".join(sorted({*USUAL_ACTIVITY, "enc_util_pct"}
                                      - {"fp64_active_pct", "fp16_active_pct"}))),
                     (",".join(f"-{name}" for name in USUAL_ACTIVITY), "off")],
    "prometheus": [("http://prometheus:9090/", "http://prometheus:9090"),
        ("https://user:pass@host/prefix", "https://user:pass@host/prefix")],
    "prometheus_username": [("reader", "reader")],
    "prometheus_password": [("hunter 2", Secret("hunter 2")), (" x \n", Secret(" x "))],
    "remote_write_password": [("hunter 2", Secret("hunter 2"))],
    "sasl_token": [("t0ken", Secret("t0ken"))],
    "prometheus_token": [("t0ken", Secret("t0ken")), (" t0ken \n", Secret("t0ken"))],
    "remote_write_token": [("t0ken", Secret("t0ken"))],
    "prometheus_headers": [("X-Scope-OrgID: a|b\nX-More: 1", Secret("X-Scope-OrgID: a|b\nX-More: 1"))],
    "prometheus_cluster": [("cluster", "cluster"), ("cluster=eu west/1", "cluster=eu west/1")],
    "prometheus_names": [("a:b = DCGM_X, c=d", (("a:b", "DCGM_X"), ("c", "d")))],
    "remote_write_headers": [("X-Scope-OrgID: a", Secret("X-Scope-OrgID: a"))], "demo": [("on", "on")],
    "annotations": [("on", "on")], "signals": [("off", "off")], "web": [(":0", "127.0.0.1:0")],
    "web_open": [("20", 20)],
    "kubernetes": [("off", "off")], "web_kubernetes": [("on", "on")],
    "web_pools": [("example.org/pool, known", ("example.org/pool", "known")), ("", ())],
    "web_proxies": [("10.1.2.3/16, fd00::7", ("10.1.0.0/16", "fd00::7/128")), ("", ())],
    "web_user_header": [("X-Auth-Request-Email", "X-Auth-Request-Email")],
    "web_groups_header": [("X-Auth-Request-Groups", "X-Auth-Request-Groups")],
    "web_allow": [("alice@example.org, group:ml", ("alice@example.org", "group:ml")), ("*", ("*",))],
    "cycles_early": [("off", "off")], "kubernetes_events": [("off", "off")], "node_labels": [("on", "on")],
    "pod_resources": [("/run/kubelet.sock", "/run/kubelet.sock")],
    "steps_socket": [("/run/steps.sock", "/run/steps.sock")], "spool": [("/var/spool", "/var/spool")],
    "spool_bytes": [("64MB", 64 * 1024**2), ("1.5GiB", 3 * 1024**3 // 2)],
    "analyses": [("usage, windows", ("windows", "usage")), ("cycles,trends", ("cycles", "trends"))],
    "windows_metrics": [("power_w", ("power_w",))],
    "windows": [("10s,1m,10m", (10.0, 60.0, 600.0)), ("60", (60.0,))], "lateness": [("0", 0.0)],
    "snapshot_interval": [("0.5s", 0.5)], "lost_state": [("begin-anew", "begin-anew")],
    "session_timeout": [("30s", 30.0)], "evaluate": [("30s", 30.0)],
    "retire": [("1d", 86_400.0)], "evict": [("2d", 172_800.0)], "evict_pods": [("3d", 259_200.0)],
    "evict_jobs": [("30d", 2_592_000.0)], "price_gpu_hour": [("2.5", 2.5)],
    "price_kwh": [("0", 0.0), (".3", 0.3), ("3.", 3.0)],
    "price_gpu_models": [("H200=4.1, A100 80GB=2", (("H200", 4.1), ("A100 80GB", 2.0))), ("", ())],
    "price_cpu_hour": [("0.04", 0.04)], "usage_hours": [("30d", 30 * 86_400.0)],
    "usage_days": [("730d", 730 * 86_400.0)],
    "cycles_metrics": [("power_w, gpu_util_pct", ("gpu_util_pct", "power_w"))],
    "cycles_window": [("1200", 1200)], "cycles_shortest": [("4", 4)], "cycles_confidence": [("0.8", 0.8)],
    "cycles_confidence_part": [("1", 1.0)], "cycles_confidence_begun": [(".5", 0.5)],
    "cycles_misses": [("5", 5)], "trends_metrics": [("power_w", ("power_w",))],
    "trends_horizons": [("5s,1m", (5.0, 60.0))],
    "models": [(
        "a=gpu/power_w,temp_c: drift.ADWIN(1); b-2 = power_w: x:y",
        (ModelSetting("a", "gpu", ("power_w", "temp_c"), "drift.ADWIN(1)"),
         ModelSetting("b-2", None, ("power_w",), "x:y")),
    )],
    "models_lags": [("24", 24)], "models_seed": [("7", 7)], "models_bytes": [("64kB", 65536)],
    "records": [("sqlite:////var/lib/records.db", "sqlite:////var/lib/records.db"),
        ("postgresql+psycopg://u:p@h/d", "postgresql+psycopg://u:p@h/d")],
    "annotation_prefix": [("gpu.example.org", "gpu.example.org")], "annotation_interval": [("1m", 60.0)],
    "remote_write_interval": [("1m", 60.0)], "annotation_heartbeat": [("2m", 120.0), ("0", 0.0)],
    "annotation_rate": [("20", 20)], "metrics_window": [("10s", 10.0)], "metrics_stale": [("2m", 120.0)],
    "metrics_pods": [("100", 100)],
    "remote_write": [("https://u:p@mimir/api/v1/push", "https://u:p@mimir/api/v1/push")],
    "remote_write_username": [("writer", "writer")],
    "remote_write_labels": [("cluster=eu-1, __replica__ = b", (("cluster", "eu-1"), ("__replica__", "b"))),
        ("", ())],
    "remote_write_bytes": [("8MB", 8 * 1024**2)],
    "pod_labels": [("team, example.com/cost-centre", ("team", "example.com/cost-centre")), ("", ())],
    "webhook_team_label": [("example.com/team", "example.com/team")],
    "serve_plain": [("on", "on")],
    "serve_listen": [(":6443", "127.0.0.1:6443")], "roles": [("metrics, extender", ("metrics", "extender"))],
    "listen": [("0.0.0.0:9000", "0.0.0.0:9000"), ("[::1]:9000", "[::1]:9000"), (":0", "127.0.0.1:0"),
        ("off", "off")],
}  # fmt: skip
"""By setting: texts, and the values that they give."""

BAD: dict[str, dict[str, list[str]]] = {
    "kafka://host:9092": {"broker": ["", "http://a:9092", "a", "a:0", "a:70000", "a:9092,", "kafka://",
        "a:\uff19092"]},
    "cannot be read: No such file": {"tls_ca": ["/no/such/ca.pem"]},
    "cannot be read: Is a directory": {"tls_cert": [HERE], "serve_cert": [HERE], "web_token": [HERE],
        "webhook_client_ca": [HERE], "extender_client_ca": [HERE]},
    "cannot be read": {"prometheus_ca": ["/does/not/exist"],
        "remote_write_ca": ["/does/not/exist"], "webhook_policy": ["/does/not/exist"],
        "listen_key": [HERE], "web_token": ["/does/not/exist"]},
    "addresses or networks": {"web_proxies": ["ingress", "10.1.2", "10.0.0.0/33"]},
    "name of a header": {"web_user_header": ["", "X User"], "web_groups_header": ["a:b", "x\ny"]},
    "names without control characters": {"web_allow": ["a\tb"]},
    "names of namespaces": {"cull_namespaces": ["My_Team", "a;b"]}, "from 600s": {"cull_after": ["1m"]},
    "from 0s to 604800s": {"cull_notice": ["8d"]}, "from 0 to 1000": {"cull_daily": ["-1"]},
    "a DNS name": {"cull_ledger": ["My_Map"]},
    "one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER": {"sasl_mechanism": ["plain"]},
    "is empty": {"sasl_username": [""], "sasl_password": [" "], "prometheus_username": [" "],
        "sasl_token": [""], "listen_token": [""],
        "prometheus_password": [""], "prometheus_token": [""], "prometheus_headers": [""],
        "remote_write_headers": ["\n"], "pod_resources": [""], "steps_socket": [""], "spool": [""],
        "remote_write_username": [""], "remote_write_password": [" "], "remote_write_token": [""],
        "webhook_team_label": [""], "host_root": [""], "cuda_logs": [""],
        "tls_key": [""], "serve_key": [""], "listen_cert": [""], "web_token": [""]},
    "without Bearer": {"prometheus_token": ["Bearer tok", "bearer tok"]},
    "one line of ASCII": {"listen_token": ["€"], "remote_write_token": ["a\nb"], "sasl_token": ["a\x00b"]},
    "stands in quotes": {"sasl_username": ['"u"'], "spool": ["'/spool'"], "webhook_team_label": ['"team"']},
    "begins with ~": {"spool": ["~/spool"], "steps_socket": ["~/s"], "tls_ca": ["~/ca.pem"],
        "host_root": ["~/"]},
    "one of refuse, begin-anew": {"lost_state": ["ignore"]},
    "at most 200 characters": {"topic_prefix": ["x" * 201]},
    "letters, digits": {"topic_prefix": ["a/b", " "]},
    "from 1 to 100000": {"web_open": ["0", "many"]},
    "from 1 to 10000": {"partitions": ["0", "eight", "8.5"], "annotation_rate": ["0"]},
    "from 1 to 15": {"replication": ["16"]},
    "host name": {"node": ["a/b", "-a", "", "a" * 254]},
    "from 0.05s to 3600s": {"interval": ["0", "9" * 400]},
    "a duration such as": {"interval": ["-1s", "1 hour", "nan"], "windows": [""], "evict_pods": ["soon"]},
    "no such folder": {"host_root": [FILE], "cuda_logs": ["/does/not/exist"]},
    "one of on, off": {"gpu_health": ["yes"], "web_kubernetes": ["auto"], "serve_plain": ["yes"],
        "cull_dry_run": ["yes"], "node_labels": ["yes"]},
    "one of filter, last, off": {"extender_sick": ["on"]},
    "on, off, or some of sm_active_pct": {"gpu_activity": ["yes", "gpu_util_pct", "", "-gpu_util_pct", "-"]},
    "one of pods, containers, all": {"containers": ["docker"]},
    "one a line": {"prometheus_headers": ["X-Scope-OrgID", "X Y: 1"]},
    "the name of a label": {"prometheus_cluster": ["no label", "cluster=", 'cluster="eu"', "cluster=~eu.*",
        "cluster=eu,region=b"]},
    "pairs of different names": {"prometheus_names": ["a", "a=b,a=c", ""]},
    "http://prometheus:9090": {"prometheus": ["prometheus:9090", "http://", "http://a b:9090", "http://a/#b"]},
    "IPv6": {"prometheus": ["http://[::1"]},
    "port": {"prometheus": ["http://host:port"]},
    "ort": {"prometheus": ["http://host:99999"]},
    "expected one of on, off": {"signals": ["yes"], "demo": ["yes"]},
    "one of auto, on, off": {"kubernetes": ["yes"], "annotations": ["true"]},
    "at least 1048576 bytes": {"spool_bytes": ["1000"], "remote_write_bytes": ["1000"]},
    "a size such as": {"spool_bytes": ["much", "9" * 400 + "GB"]},
    "each larger than the one before": {"windows": ["60s,10s", "10s,10s"]},
    "whole seconds": {"windows": ["1.5s"], "trends_horizons": ["1.5s"]},
    "from 1s to 600s": {"windows": ["1h"], "evaluate": ["0.5s"], "metrics_window": ["0"]},
    "from 0s to 3600s": {"lateness": ["2h"]},
    "from 0.1s to 300s": {"snapshot_interval": ["0"]},
    "from 2s to 300s": {"session_timeout": ["1s"]},
    "from 10s to 86400s": {"retire": ["1s"]},
    "from 10s to 31536000s": {"evict": ["1s"], "evict_jobs": ["400d"]},
    "sqlite:///path": {"records": ["records.db"]},
    "postgresql+psycopg://": {"records": ["mysql://u:p@h/d"]},
    "a DNS name in lower case": {"annotation_prefix": ["Dutycycle.IO", "a..b", "a/b"]},
    "from 1s to 86400s": {"annotation_interval": ["0"]},
    "from 0s to 86400s": {"annotation_heartbeat": ["2d"]},
    "a number, such as 2.5": {"price_gpu_hour": ["2.50 EUR"], "price_kwh": ["-1"],
        "price_cpu_hour": ["free"]},
    "each model once, with its price, such as H200=4.1,A100=2.5": {"price_gpu_models": ["H200"]},
    "each model once": {"price_gpu_models": ["H200=1,h200=2", "%=1", "H200=4,1;A100=2.5"]},
    "a duration from 86400s": {"usage_hours": ["1h"], "usage_days": ["1h"]},
    "names of metrics": {"cycles_metrics": ["Power W", ""], "trends_metrics": [","]},
    "trends needs cycles": {"analyses": ["trends"]},
    "a multiple of 4, such as 1200": {"cycles_window": ["1201"]},
    "from 64 to 10000": {"cycles_window": ["20"]},
    "from 3 to 100": {"cycles_shortest": ["2"]},
    "on, off": {"cycles_early": ["yes"], "kubernetes_events": ["auto"]},
    "from 0 to 1": {"cycles_confidence": ["90"], "cycles_confidence_part": ["1.1"],
        "cycles_confidence_begun": ["nan"]},
    "from 1 to 100": {"cycles_misses": ["0"]},
    "expected NAME=METRIC: SPEC": {"models": ["a: drift.ADWIN()"]},
    "there twice": {"models": ["a=power_w,power_w: x:y"]},
    "from 1 to 1000": {"models_lags": ["0"]},
    "from 0 to": {"models_seed": ["-1"]},
    "at least 1024 bytes": {"models_bytes": ["10"]},
    "from 5s to 3600s": {"metrics_stale": ["1s"]},
    "from 0 to 1000000": {"metrics_pods": ["-1"]},
    "a URL such as": {"remote_write": ["mimir/api/v1/push"]},
    "such as cluster=a": {"remote_write_labels": ["cluster", "a-b=c", "a="]},
    "a label is there twice": {"remote_write_labels": ["a=b,a=c"]},
    "from 1s to 300s": {"remote_write_interval": ["0"]},
    "separated by commas": {"pod_labels": ["team;cost"], "web_pools": ["a b"], "windows_metrics": ["W"]},
    "the same name on a series": {"pod_labels": ["a-b,a_b"]},
    "expected host:port": {"serve_listen": ["off"], "web": ["nowhere"]},
    "expected roles, separated by commas": {"roles": ["", ","]},
    "or off": {"listen": ["9000", "127.0.0.1:65536", "http://127.0.0.1:80"]},
}  # fmt: skip
"""By what the message says that is right: settings, and texts that are wrong."""

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
    assert GOOD.keys() == set(NAMES)
    assert {name for wrong in BAD.values() for name in wrong} == set(NAMES)


@pytest.mark.parametrize(
    ("name", "text", "value"), [(name, *row) for name, rows in GOOD.items() for row in rows]
)
def test_good_values(name: str, text: str, value: Any) -> None:
    environ = COMPANIONS.get(name, {})
    assert getattr(load(environ | {variable(name): text}), name) == value
    assert getattr(load(environ, {name: text}), name) == value


@pytest.mark.parametrize(
    ("name", "text", "right"),
    [(name, text, right) for right, wrong in BAD.items() for name, texts in wrong.items() for text in texts],
)
def test_bad_values(name: str, text: str, right: str) -> None:
    flag = "--" + FLAGS.get(name, name).replace("_", "-")
    for source, environ, flags in ((variable(name), {variable(name): text}, {}), (flag, {}, {name: text})):
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


def test_a_flag_beats_a_variable_or_a_file_and_these_beat_the_default(tmp_path: Path) -> None:
    file = tmp_path / "node"
    file.write_text("from-file\n", encoding="utf-8")
    from_file = {"DUTYCYCLE_NODE_FILE": str(file)}
    from_variable = {"DUTYCYCLE_NODE": "from-variable"}
    assert load(from_file).node == "from-file"
    assert load(from_variable).node == "from-variable"
    for environ in (from_file, from_variable, from_file | from_variable):
        assert load(environ, {"node": "from-flag"}).node == "from-flag"


@pytest.mark.parametrize("name", ["DUTYCYCLE_SASL_PASSWORD", "DUTYCYCLE_RECORDS", "DUTYCYCLE_NODE"])
@pytest.mark.parametrize("value", ["hunter2", ""])
def test_a_variable_beside_its_file_is_refused(name: str, value: str, tmp_path: Path) -> None:
    file = tmp_path / "value"
    file.write_text("hunter3\n", encoding="utf-8")
    with pytest.raises(SettingError, match=f"{name} and {name}_FILE are both set") as refused:
        load({name: value, f"{name}_FILE": str(file)})
    assert "hunter" not in str(refused.value)


def test_other_variables_are_none_of_ours() -> None:
    assert load({"NODE": "x", "BROKER": "y", "DUTYCYCLE": "z"}).broker is None


@given(st.dictionaries(st.sampled_from(NAMES), st.text(max_size=30), max_size=3))
def test_any_text_is_a_value_or_a_setting_error(flags: dict[str, str]) -> None:
    try:
        load({}, flags)
    except SettingError as error:
        assert str(error)  # noqa: PT017 - a good value is allowed as well


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        ({"SASL_MECHANISM": "PLAIN"}, "SASL_USERNAME"),
        ({"SASL_MECHANISM": "PLAIN", "SASL_USERNAME": "u"}, "SASL_PASSWORD"),
        ({"SASL_MECHANISM": "OAUTHBEARER", "SASL_USERNAME": "u", "SASL_PASSWORD": "p"}, "SASL_TOKEN"),
        ({"PROMETHEUS_USERNAME": "u"}, "PROMETHEUS_PASSWORD"),
        ({"PROMETHEUS_PASSWORD": "p"}, "PROMETHEUS_USERNAME"),
        ({f"PROMETHEUS_{name}": "x" for name in ("USERNAME", "PASSWORD", "TOKEN")}, "PROMETHEUS_TOKEN"),
        ({"REMOTE_WRITE_PASSWORD": "p"}, "REMOTE_WRITE_USERNAME"),
        ({f"REMOTE_WRITE_{name}": "x" for name in ("USERNAME", "PASSWORD", "TOKEN")}, "REMOTE_WRITE_TOKEN"),
        ({"TLS_CERT": FILE}, "TLS_KEY"),
        ({"TLS_KEY": FILE}, "TLS_CERT"),
    ],
)
def test_settings_that_go_together(values: dict[str, str], missing: str) -> None:
    with pytest.raises(SettingError, match=PREFIX + missing):
        load({PREFIX + name: text for name, text in values.items()})


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
        *(variable(name) for name in NAMES), "DUTYCYCLE_SASL_PASSWORD_FILE", "DUTYCYCLE_SOMETHING_ELSE",
        "DUTYCYCLE_TEST_BROKER", "DUTYCYCLE_PORT", "DUTYCYCLE_SERVICE_HOST", "DUTYCYCLE_PORT_9092_TCP_ADDR",
        "NODE",
    ],
)  # fmt: skip
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
