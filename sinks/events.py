"""What may happen in the sinks beyond ``wire.events``, by name."""

import logging

from wire.events import Event

OBJECT_GONE = Event(
    "object_gone", logging.INFO, "Objects to annotate that are no longer there, or never were", ("kind",)
)
ANNOTATION_SHED = Event(
    "annotation_shed", logging.WARNING, "Objects whose annotations were given up, because too many wait"
)
PODS_OMITTED = Event("pods_omitted", logging.WARNING, "Jobs with more pods than fit into their annotations")
ANNOTATIONS_OFF = Event("annotations_off", logging.INFO, "No Kubernetes objects are annotated", ("reason",))
SINK_AWAY = Event("sink_away", logging.WARNING, "What a sink writes to cannot be written", ("sink",))
SHARED_NODES = Event(
    "shared_nodes", logging.WARNING, "Several workers share the records of a node's GPUs", ("topic",)
)
