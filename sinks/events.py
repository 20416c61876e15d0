"""Declares what may happen in the sinks beyond ``dutycycle.telemetry.events``, by name."""

import logging

from dutycycle.telemetry.events import ADAPTER, CULL, EXTENDER, METRICS, SINK, WEB, WEBHOOK, Event

# fmt: off
OBJECT_GONE = Event(
    "object_gone", logging.INFO, "Objects to annotate that are no longer there, or never were", ("kind",),
    by=(SINK,),
)
NO_KIND = Event(
    "no_kind", logging.WARNING, "Objects of a kind that the API server does not serve", by=(SINK,)
)
KIND_FORBIDDEN = Event(
    "kind_forbidden", logging.INFO, "Kinds of jobs that no role lets the sinks read", ("kind",), by=(SINK,)
)
PERMISSION_MISSING = Event(
    "permission_missing", logging.WARNING,
    "Objects that no role lets the sinks annotate, or the adapter ask for", ("kind",), by=(SINK, ADAPTER),
)
HEARTBEAT_FAILED = Event(
    "heartbeat_failed", logging.WARNING, "Nodes whose Lease cannot be renewed", by=(SINK,)
)
NODE_LABELS_FAILED = Event(
    "node_labels_failed", logging.WARNING, "Nodes whose labels the API server refuses", by=(SINK,)
)
EVENT_FAILED = Event(
    "event_failed", logging.WARNING, "Kubernetes Events that the API server refuses", by=(SINK,)
)
ANNOTATION_SHED = Event(
    "annotation_shed", logging.WARNING, "Objects whose annotations were dropped, because too many wait",
    ("final",), by=(SINK,), values={"final": ("true", "false")},
)
PODS_OMITTED = Event(
    "pods_omitted", logging.WARNING, "Jobs with more pods than fit into their annotations", by=(SINK,)
)
ANNOTATIONS_FULL = Event(
    "annotations_full", logging.WARNING, "Nodes and pods whose annotations leave no room for all of ours",
    ("kind",), by=(SINK,), values={"kind": ("node", "pod")},
)
ANNOTATIONS_OFF = Event(
    "annotations_off", logging.INFO, "No Kubernetes objects are annotated", ("reason",),
    by=(SINK,), values={"reason": ("off", "no_api_server")},
)
SINK_AWAY = Event(
    "sink_away", logging.WARNING, "The database, the API server or the receiver of series cannot be written",
    ("sink",), by=(SINK, METRICS),
)
SAMPLES_DROPPED = Event(
    "samples_dropped", logging.ERROR,
    "Samples that the receiver of remote write refused, or that waited for it when the memory was full",
    ("reason",), by=(METRICS,), values={"reason": ("refused", "full")},
)
ANALYSIS_OFF = Event(
    "analysis_off", logging.INFO, "What a service does without, because DUTYCYCLE_ANALYSES leaves it out",
    ("analysis",), by=(SINK, METRICS, ADAPTER, EXTENDER, WEBHOOK),
)
ADAPTER_SERVES = Event(
    "adapter_serves", logging.INFO, "The adapter answers",
    by=(ADAPTER,),
)
FRONT_PROXY_UNKNOWN = Event(
    "front_proxy_unknown", logging.WARNING,
    "The adapter cannot learn by which certificate authority to recognise the API server",
    by=(ADAPTER,),
)
CULL_ANNOUNCED = Event(
    "cull_announced", logging.INFO, "Idle workloads of which was said that they are, or would be, stopped",
    by=(CULL,),
)
CULLED = Event("culled", logging.WARNING, "Idle workloads that were stopped", by=(CULL,))
CULL_LIMIT = Event(
    "cull_limit", logging.INFO, "As many idle workloads were stopped today as may be", by=(CULL,)
)
CULL_FAILED = Event(
    "cull_failed", logging.WARNING, "Idle workloads that could not be looked at or stopped; tried again",
    by=(CULL,),
)
EXTENDER_SERVES = Event("extender_serves", logging.INFO, "The extender answers", by=(EXTENDER,))
PLACEMENT_DROPPED = Event(
    "placement_dropped", logging.WARNING, "Pods that do not get the scores of their nodes as an annotation",
    ("reason",), by=(EXTENDER,), values={"reason": ("full", "refused", "stopped")},
)
WEB_SERVES = Event("web_serves", logging.INFO, "The page for browsers answers", by=(WEB,))
WEBHOOK_SERVES = Event("webhook_serves", logging.INFO, "The webhook answers", by=(WEBHOOK,))
POD_NOT_UNDERSTOOD = Event(
    "pod_not_understood", logging.WARNING, "Pods that were not understood, and admitted unchanged",
    by=(WEBHOOK,),
)
PRIORITY_CLASSES_AWAY = Event(
    "priority_classes_away", logging.WARNING, "PriorityClasses cannot be listed, made or deleted",
    by=(WEBHOOK,),
)
CERTIFICATE_UNUSABLE = Event(
    "certificate_unusable", logging.WARNING, "A renewed certificate cannot be used; the one before is kept",
    by=(ADAPTER, EXTENDER, WEBHOOK),
)
LOG_TRUNCATED = Event(
    "log_truncated", logging.ERROR,
    "Partitions that end before the last offset that was read; they are read from their beginning",
    ("topic",), by=(SINK,),
)
# fmt: on
