"""What may happen in the sinks beyond ``telemetry.events``, by name."""

import logging

from telemetry.events import Event

OBJECT_GONE = Event(
    "object_gone", logging.INFO, "Objects to annotate that are no longer there, or never were", ("kind",)
)
NO_KIND = Event(
    "no_kind",
    logging.WARNING,
    "Objects of a kind that the API server does not serve",
)
KIND_FORBIDDEN = Event(
    "kind_forbidden",
    logging.INFO,
    "Kinds of jobs that no role lets the sinks read, told once each",
    ("kind",),
)
ANNOTATION_SHED = Event(
    "annotation_shed", logging.WARNING, "Objects whose annotations were given up, because too many wait",
    ("final",),
)  # fmt: skip
PODS_OMITTED = Event("pods_omitted", logging.WARNING, "Jobs with more pods than fit into their annotations")
ANNOTATIONS_OFF = Event("annotations_off", logging.INFO, "No Kubernetes objects are annotated", ("reason",))
SINK_AWAY = Event("sink_away", logging.WARNING, "What a sink writes to cannot be written", ("sink",))
SHARED_NODES = Event(
    "shared_nodes", logging.WARNING, "What is found about a node's GPUs reaches another worker", ("topic",)
)
LOG_SHORTER = Event(
    "log_shorter", logging.ERROR, "Partitions that end before what was read of them, read anew", ("topic",)
)
