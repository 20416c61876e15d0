"""The views that unfold a record's JSON into one row per metric. Pure SQL text.

``->``, ``->>`` and ``json_each`` mean the same in SQLite (3.38 and newer) and in PostgreSQL, so each view
is one text for both.
"""

VIEWS = {
    "pod_peak_metrics": ("t.pod_uid", "pod_peaks AS t, json_each(t.record -> 'metrics') AS m"),
    "pod_peak_gpus": (
        "t.pod_uid, g.key AS gpu",
        "pod_peaks AS t, json_each(t.record -> 'gpus') AS g, json_each(g.value) AS m",
    ),
    "pod_peak_processes": (
        "t.pod_uid, p.key AS process",
        "pod_peaks AS t, json_each(t.record -> 'processes') AS p, json_each(p.value) AS m",
    ),
    "job_peak_metrics": ("t.job_uid", "job_peaks AS t, json_each(t.record -> 'metrics') AS m"),
    "job_peak_pods": (
        "t.job_uid, p.key AS pod",
        "job_peaks AS t, json_each(t.record -> 'pods') AS p, json_each(p.value -> 'metrics') AS m",
    ),
}
"""Key columns and sources by name. ``gpu`` is ``<node>/<index>``, ``process`` ``<node>/<index>/<pid>``."""


def create_view(name: str) -> str:
    """The statement that makes one view: its key columns, ``metric``, ``max``, ``mean`` and ``at_ms``."""
    keys, sources = VIEWS[name]
    return (  # names of our own, nothing that came from outside
        f"CREATE VIEW {name} AS SELECT {keys}, m.key AS metric, "  # noqa: S608
        "CAST(m.value ->> 'max' AS DOUBLE PRECISION) AS max, "
        "CAST(m.value ->> 'mean' AS DOUBLE PRECISION) AS mean, "
        f"CAST(m.value ->> 'at_ms' AS BIGINT) AS at_ms FROM {sources}"
    )
