"""Writes docs/tables.md: the prose of tables.template.md, with the columns of each topic from the code.

``python -m docs.generate_tables`` writes the page; a test says when that was forgotten.
"""

from pathlib import Path

from dutycycle.contract.topics import TOPICS
from dutycycle.tables.columns import table

HERE = Path(__file__).parent
PAGE = HERE / "tables.md"
TEMPLATE = HERE / "tables.template.md"
_ROWS = {
    "nvml-samples": "a GPU and tick",
    "cgroup-samples": "a container and tick, with its pod and the host",
    "cuda-samples": "a pod and tick",
    "processes": "a process and tick",
    "gpu-events": "an event",
    "gpu-health": "a GPU of the node, as of the event",
    "window-aggregates": "a subject, window and metric",
    "trends": "a subject and metric",
    "cycles": "a subject and metric",
    "usage": "a pod on a GPU, or a pod on the CPU, in the hour so far; the newest holds",
    "pod-peaks": "a metric: of the pod, or of its `gpu`, or of its `process`",
    "node-peaks": "a metric and minute: of the node, or of its `gpu`",
    "job-peaks": "a metric: of the job, or of its `pod`, or of a `gpu` of that",
}
_RECORD = "a record"


def page() -> str:
    """The whole page."""
    topics = "\n\n".join(_topic(one.name) for one in TOPICS.values() if not one.internal)
    return TEMPLATE.read_text(encoding="utf-8").replace("{{topics}}", topics)


def _topic(name: str) -> str:
    columns = ", ".join(f"`{column}` {kind}" for column, kind in table(name).columns.items())
    return f"### {name}\n\nA row is {_ROWS.get(name, _RECORD)}.\n\n{columns}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
