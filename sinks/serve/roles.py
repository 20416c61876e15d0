"""Registers the roles: a new role is one line here."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib import import_module

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import ViewerSettings
from dutycycle.telemetry.events import ADAPTER, EXTENDER, METRICS, WEB, WEBHOOK
from sinks.serve.base import Role

OF_METRICS = (
    "metrics_window", "metrics_stale", "metrics_pods", "pod_labels", "remote_write", "remote_write_ca",
    "remote_write_username", "remote_write_labels", "remote_write_interval", "remote_write_bytes",
)  # fmt: skip
_OF_LISTENER = ("serve_listen", "serve_cert", "serve_key")

_OF_VIEWERS = tuple(field.name for field in fields(ViewerSettings))


@dataclass(frozen=True, slots=True)
class RoleEntry:
    """Says where a role's class is, under which name its process and its events are known where it is alone,
    and which settings it has."""

    path: str
    process: str
    settings: tuple[str, ...]


ROLES = {
    "metrics": RoleEntry("sinks.prometheus.role:MetricsRole", METRICS, OF_METRICS),
    "autoscaler": RoleEntry("sinks.adapter.role:AutoscalerRole", ADAPTER, (*_OF_LISTENER, "lateness")),
    "extender": RoleEntry(
        "sinks.scheduling.role:ExtenderRole", EXTENDER,
        (*_OF_LISTENER, "extender_client_ca", "extender_sick"),
    ),
    "webhook": RoleEntry(
        "sinks.scheduling.webhook.role:WebhookRole", WEBHOOK,
        (*_OF_LISTENER, "webhook_client_ca", "webhook_policy", "webhook_team_label", "annotation_prefix"),
    ),
    "web": RoleEntry(
        "dutycycle.web.role:WebRole", WEB,
        (
            *_OF_LISTENER, *_OF_VIEWERS, "serve_plain", "records", "price_gpu_hour", "price_kwh",
            "prometheus", "prometheus_ca", "prometheus_username", "prometheus_cluster", "prometheus_names",
        ),
    ),
}  # fmt: skip


def role_class(name: str) -> type[Role]:
    """Return the class of a role, imported only when it is used."""
    module, _, attribute = ROLES[name].path.partition(":")
    role: type[Role] = getattr(import_module(module), attribute)
    return role


def chosen_roles(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, each once. Raises ``SettingError`` for none, and for one that is no role."""
    if not names or not ROLES.keys() >= set(names):
        given = f"={','.join(names)}" if names else ""
        raise SettingError(
            f"DUTYCYCLE_ROLES{given}: expected some of {', '.join(ROLES)}, separated by commas"
        )
    return tuple(dict.fromkeys(names))
