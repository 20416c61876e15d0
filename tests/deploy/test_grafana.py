"""The dashboards: SQL on a real PostgreSQL as Grafana's reader, PromQL on a real Prometheus, every place."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from copy import deepcopy
from enum import Enum
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
import yaml
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

from dutycycle.contract.records.hours import GpuHour, UsageHour
from sinks.records.rows import rows_of
from tests.support.deploy.compose_file import ROOT, services
from tests.support.deploy.generate_dashboards import FOLDER, wanted
from tests.support.servers.missing import program
from tests.support.servers.prometheus import Prometheus, scrape
from tests.support.sinks.made import insight, job_peaks, pod_peaks
from tests.support.sinks.recording import open_store

register_default_plugins()


def problems(dashboard: dict[str, Any]) -> list[str]:
    """Names that are not in Grafana's schema, and values of another type, each with its place.

    Its own classes read any JSON without a word, so what they write again is compared with what they read.
    """
    found = Dashboard.from_json(dashboard)
    return [*_left_out(dashboard, _plain(found), ""), *_mistyped(found, Dashboard, "")]


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "to_json"):
        value = value.to_json()
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if one is not None}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _left_out(given: Any, again: Any, place: str) -> Iterator[str]:
    if isinstance(given, dict) and isinstance(again, dict):
        for key, one in given.items():
            if key in again:
                yield from _left_out(one, again[key], f"{place}.{key}")
            else:
                yield f"{place}.{key}: no such name"
    elif isinstance(given, list) and isinstance(again, list):
        for number, (one, other) in enumerate(zip(given, again, strict=True)):
            yield from _left_out(one, other, f"{place}[{number}]")


def _mistyped(value: Any, hint: Any, place: str) -> Iterator[str]:
    kind: Any = get_origin(hint) or hint
    arguments = get_args(hint)
    if kind in (Union, UnionType):
        yield from min((list(_mistyped(value, one, place)) for one in arguments), key=len)
    elif kind is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        options: Any = arguments if kind is Literal else kind
        allowed = [_plain(one) for one in options]
        if _plain(value) not in allowed:
            yield f"{place}: {value!r} is none of {allowed}"
    elif hasattr(kind, "from_json") and isinstance(value, dict):
        yield from _mistyped(kind.from_json(value), kind, place)
    elif not _is(value, kind):
        yield f"{place}: {value!r} is no {kind.__name__}"
    else:
        for name, one, declared in _parts(value, arguments[-1] if arguments else Any):
            yield from _mistyped(one, declared, place + name)


def _is(value: Any, kind: Any) -> bool:
    if kind in (Any, object) or (kind is float and type(value) is int):
        return True
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _parts(value: Any, hint: Any) -> Iterator[tuple[str, Any, Any]]:
    """What ``value`` has, each with its name and its declared type, which in a list or dict is ``hint``."""
    if hasattr(value, "to_json"):
        for name, declared in get_type_hints(type(value)).items():
            yield f".{name}", getattr(value, name), declared
    elif isinstance(value, list | dict):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield f"[{key}]", one, hint


WHOLE: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))
}
DASHBOARDS = {name: dashboard["panels"] for name, dashboard in WHOLE.items()}
PROVISIONED = ROOT / "deploy/grafana/provisioning"
SOURCES = yaml.safe_load((PROVISIONED / "datasources/dutycycle.yml").read_text())["datasources"]
PANELS = [panel for panels in DASHBOARDS.values() for panel in panels]
SQL_PANELS = [panel for panel in PANELS if "rawSql" in panel["targets"][0]]
PROM_PANELS = [panel for panel in PANELS if "expr" in panel["targets"][0]]
MACROS = {"$__unixEpochFrom()": "0", "$__unixEpochTo()": "4102444800"}
PASSWORD = "it's a 'test'"


@pytest.fixture
def reader(postgres_url: str) -> Engine:
    """A database with a pod and a job, as the user that deploy/postgres makes for Grafana."""
    store = open_store(postgres_url)
    held: dict[str, Any] = {
        "gpu": "GPU-1", "model": "NVIDIA H200", "gpu_s": 60, "known_s": 60, "busy_s": 6, "energy_j": 9,
    }  # fmt: skip
    rows = (GpuHour(pod_uid="uid-1", **held), GpuHour(**held))
    usage = UsageHour(node="gpu-a", source="nvml", hour_ms=0, ts_ms=60_000, gpus=rows)
    records = (pod_peaks(), job_peaks(), insight("idle", "idle", "stop it"), usage)
    assert store.put([row for one in records for row in rows_of(one)]) == []
    store.close()
    url = make_url(postgres_url)
    program("psql")
    _make_reader(url.username, str(url.password), url.host, url.port, url.database)
    return create_engine(url.set(username="grafana_reader", password=PASSWORD))


def _make_reader(*server: object) -> None:
    """Run the script as PostgreSQL's image would; PG* stand for the socket that psql finds there."""
    user, password, host, port, database = map(str, server)
    connection = {"PGHOST": host, "PGPORT": port, "PGPASSWORD": password}
    image = {"POSTGRES_USER": user, "POSTGRES_DB": database, "GRAFANA_READER_PASSWORD": PASSWORD}
    with_role = create_engine(f"postgresql+psycopg://{user}:{password}@{host}:{port}/{database}")
    with with_role.begin() as one:  # a role belongs to the cluster, which all tests of this worker share
        one.execute(text("DROP ROLE IF EXISTS grafana_reader"))
    with_role.dispose()
    script = ROOT / "deploy/postgres/10-grafana-reader.sh"
    subprocess.run(["sh", script], env=os.environ | connection | image, check=True, capture_output=True)


@pytest.mark.parametrize("panel", SQL_PANELS, ids=lambda panel: str(panel["title"]))
def test_a_panels_sql_finds_the_records(reader: Engine, panel: dict[str, Any]) -> None:
    query = panel["targets"][0]["rawSql"]
    for macro, value in MACROS.items():
        query = query.replace(macro, value)
    with reader.connect() as connection:
        found = connection.execute(text(query))
        columns = set(found.keys())
        assert len(found.all()) == 1
    named = {one["matcher"]["options"] for one in panel["fieldConfig"]["overrides"]}
    assert named <= columns
    reader.dispose()


@pytest.mark.parametrize(
    "write",
    [
        "DELETE FROM pod_peaks",
        "CREATE TABLE t (a int)",
        "SET default_transaction_read_only = off; DELETE FROM pod_peaks",
    ],
)
def test_grafanas_user_cannot_write(reader: Engine, write: str) -> None:
    with reader.connect() as connection, pytest.raises(DBAPIError, match=r"read-only|permission denied"):
        connection.execute(text(write))
    reader.dispose()


def test_prometheus_understands_the_promql(prometheus: Callable[[dict[str, Any]], Prometheus]) -> None:
    server = prometheus(scrape([]))
    for target in (one for panel in PROM_PANELS for one in panel["targets"]):
        server.query(target["expr"])


def test_promql_names_rules_that_exist() -> None:
    rules = "".join(file.read_text() for file in (ROOT / "deploy/helm/dutycycle/files/rules").glob("*.yml"))
    for target in (one for panel in PROM_PANELS for one in panel["targets"]):
        for name in re.findall(r"\w+(?::\w+)+", target["expr"]):
            assert f"record: {name}\n" in rules


def test_the_dashboards_of_workloads_are_current() -> None:
    assert all(path.read_text() == text for path, text in wanted().items()), (
        "run `python -m tests.support.deploy.generate_dashboards`"
    )


@pytest.mark.parametrize("name", DASHBOARDS)
def test_grafanas_schema_knows_all_of_it(name: str) -> None:
    assert problems(WHOLE[name]) == []


def _set(place: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Change the first panel at ``place``: names, separated by dots."""
    *way, last = place.split(".")

    def change(panel: dict[str, Any]) -> None:
        for name in way:
            panel = panel[int(name)] if isinstance(panel, list) else panel.setdefault(name, {})
        panel[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_set("titel", "x"), ".panels[0].titel: no such name"),
        (_set("gridPos.w", "12"), ".panels[0].grid_pos.w: '12' is no int"),
        (_set("targets.0.exp", "up"), ".panels[0].targets[0].exp: no such name"),
        (_set("targets.0.instant", 1), ".panels[0].targets[0].instant: 1 is no bool"),
        (_set("options.colourMode", "value"), ".panels[0].options.colourMode: no such name"),
        (_set("options.graphMode", "bars"), ".panels[0].options.graph_mode: 'bars' is none of "),
        (_set("fieldConfig.defaults.units", "s"), ".panels[0].fieldConfig.defaults.units: no such name"),
        (_set("fieldConfig.defaults.max", "1"), ".panels[0].field_config.defaults.max_val: '1' is no float"),
    ],
)
def test_grafanas_schema_knows_no_other(change: Callable[[dict[str, Any]], None], says: str) -> None:
    dashboard = deepcopy(WHOLE["fleet"])
    assert dashboard["panels"][0]["type"] == "stat"
    change(dashboard["panels"][0])
    assert any(one.startswith(says) for one in problems(dashboard)), problems(dashboard)


def test_links_lead_to_dashboards_and_their_variables() -> None:
    variables = {one["uid"]: {var["name"] for var in one["templating"]["list"]} for one in WHOLE.values()}
    links = [
        link["url"]
        for one in WHOLE.values()
        for panel in one["panels"]
        for link in panel["fieldConfig"]["defaults"].get("links", ())
    ]
    assert len(links) == 6
    for link in links:
        uid, _, query = link.removeprefix("/d/").partition("?")
        assert set(re.findall(r"var-(\w+)=", query)) <= variables[uid], link


STACK = [{"uid": "prometheus", "type": "prometheus", "isDefault": True}]
"""The data source of kube-prometheus-stack, as its chart names it."""


def resolve(dashboard: dict[str, Any], sources: list[dict[str, Any]]) -> set[str]:
    """The uids that all queries of a dashboard go to, as Grafana resolves them: a variable of type
    ``datasource`` that nobody has set is the default data source of its kind, or else the first one."""
    variables = {}
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "datasource":
            fitting = [source for source in sources if source["type"] == variable["query"]]
            assert fitting, f"no data source of the kind {variable['query']}"
            default = next((source for source in fitting if source.get("isDefault")), fitting[0])
            variables[f"${{{variable['name']}}}"] = variable["current"].get("value", default["uid"])
    used = [query["datasource"] for panel in dashboard["panels"] for query in (panel, *panel["targets"])]
    used += [one["datasource"] for one in dashboard["templating"]["list"] if "datasource" in one]
    kinds = {source["uid"]: source["type"] for source in sources}
    uids = set()
    for source in used:
        uid = variables.get(source["uid"], source["uid"])
        assert kinds.get(uid) == source["type"], f"{source} leads nowhere"
        uids.add(uid)
    return uids


@pytest.mark.parametrize("name", DASHBOARDS)
def test_each_query_goes_to_a_source_of_compose(name: str) -> None:
    resolve(WHOLE[name], SOURCES)


@pytest.mark.parametrize("name", [name for name in DASHBOARDS if name not in ("peaks", "ledger")])
@pytest.mark.parametrize(
    "sources", [STACK, [{"uid": "PBFA97CFB590B2093", "type": "prometheus"}, {"uid": "loki", "type": "loki"}]]
)
def test_each_query_goes_to_the_prometheus_that_somebody_else_has_named(
    name: str, sources: list[dict[str, Any]]
) -> None:
    assert resolve(WHOLE[name], sources) == {sources[0]["uid"]}


@pytest.mark.parametrize("panels", DASHBOARDS.values(), ids=DASHBOARDS)
def test_panels_have_their_place(panels: list[dict[str, Any]]) -> None:
    taken = [
        (x, y)
        for grid in (panel["gridPos"] for panel in panels)
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_sources_point_at_services_and_their_ports() -> None:
    hosts = {re.sub(r"^https?://", "", source["url"]).partition(":")[0] for source in SOURCES}
    assert hosts <= services().keys()


def test_the_dashboard_folder_is_the_one_that_is_mounted() -> None:
    provider = yaml.safe_load((PROVISIONED / "dashboards/dutycycle.yml").read_text())["providers"][0]
    folder = provider["options"]["path"]
    grafana = services()["grafana"]
    assert f"./deploy/helm/dutycycle/files/dashboards:{folder}:ro" in grafana["volumes"]
    assert grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == f"{folder}/peaks.json"
