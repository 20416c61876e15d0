"""The least that the API server takes as the content of its own kinds."""

from typing import Any

Object = dict[str, Any]

_CONTAINERS: Object = {"containers": [{"name": "a", "image": "i"}]}
_LABELLED: Object = {"metadata": {"labels": {"app": "a"}}, "spec": _CONTAINERS}

SPEC: Object = {"spec": {"template": {"spec": _CONTAINERS | {"restartPolicy": "Never"}}}}
"""Of a Job."""
CRON: Object = {"spec": {"schedule": "@daily", "jobTemplate": SPEC}}
APP: Object = {"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": _LABELLED}}
"""Of a Deployment, ReplicaSet, StatefulSet and DaemonSet."""
CONTROLLER: Object = {"spec": {"selector": {"app": "a"}, "template": _LABELLED}}
