"""``python -m tests.support.deploy.generate_schema``: writes the chart's values.schema.json from its values.

A value has the type of its default, and a name that is not in values.yaml is refused: a mistyped one would
otherwise be ignored, and nobody would know.
"""

import json
from typing import Any

import yaml

from tests.support.deploy.manifests import CHART, Object

# Maps that go into Kubernetes' objects as they are.
_OPEN = frozenset(
    {"affinity", "labels", "metricLabels", "nodeSelector", "podAnnotations", "resources", "updateStrategy"}
)
_EITHER = {"maxUnavailable": ["integer", "string"]}
_TYPES = {bool: "boolean", int: "integer", str: "string", list: "array"}


def main() -> None:
    (CHART / "values.schema.json").write_text(text())


def text() -> str:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    # What Helm itself hands to a chart that is part of another.
    found = _schema("", values)
    found["properties"]["global"] = {"type": "object"}
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **found}, indent=1) + "\n"


def _schema(name: str, value: Any) -> Object:
    if name in _EITHER:
        return {"type": _EITHER[name]}
    if not isinstance(value, dict):
        return {"type": _TYPES[type(value)]}
    if name in _OPEN:
        return {"type": "object"}
    properties = {key: _schema(key, one) for key, one in value.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}


if __name__ == "__main__":
    main()
