"""The variable of a dashboard by which its reader chooses a data source."""

from typing import Any


def source_variable(name: str, label: str, kind: str) -> dict[str, Any]:
    """Let the reader choose the data source. At first it is Grafana's default one of its kind: its uid is
    the cluster's, and not ours."""
    return {
        "name": name, "label": label, "type": "datasource", "query": kind, "regex": "", "refresh": 1,
        "hide": 0, "multi": False, "includeAll": False, "current": {},
    }  # fmt: skip
