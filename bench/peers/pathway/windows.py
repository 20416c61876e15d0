"""Tumbling windows in Pathway: rows wait until their window has ended, and are folded then, at once."""

import os

import numpy as np
import orjson
import pathway as pw
from fold import METRICS

WINDOW_MS = LATE_MS = 10_000
KAFKA = {
    "bootstrap.servers": os.environ["BROKER"],
    "group.id": os.environ["GROUP"],
    "auto.offset.reset": "earliest",
}


@pw.udf
def decoded(data: bytes) -> tuple[str, int, tuple[str, ...], np.ndarray]:
    sample = orjson.loads(data)
    gpus = sample["gpus"]
    values = np.array([[gpu[metric] for metric in METRICS] for gpu in gpus], np.float64)
    return sample["node"], sample["ts_ms"], tuple(gpu["uuid"] for gpu in gpus), values


@pw.udf
def record(start_ms: int, gpus: tuple[tuple[str, ...], ...], values: tuple[np.ndarray, ...]) -> str:
    rows = np.array(values)
    means, least, most = rows.mean(axis=0).tolist(), rows.min(axis=0).tolist(), rows.max(axis=0).tolist()
    metrics = {
        uuid: {
            metric: {"mean": mean, "min": low, "max": high}
            for metric, mean, low, high in zip(METRICS, *of_gpu, strict=True)
        }
        for uuid, *of_gpu in zip(gpus[0], means, least, most, strict=True)
    }
    return orjson.dumps({"start_ms": start_ms, "metrics": metrics}).decode()


raw = pw.io.kafka.read(KAFKA, topic=os.environ["SOURCE"], format="raw", autocommit_duration_ms=500)
parts = raw.select(sample=decoded(pw.this.data))
samples = parts.select(
    node=pw.this.sample[0], ts_ms=pw.this.sample[1], gpus=pw.this.sample[2], values=pw.this.sample[3]
)
windows = samples.windowby(
    pw.this.ts_ms,
    window=pw.temporal.tumbling(duration=WINDOW_MS),
    instance=pw.this.node,
    behavior=pw.temporal.exactly_once_behavior(shift=LATE_MS),
).reduce(
    start_ms=pw.this._pw_window_start,
    gpus=pw.reducers.tuple(pw.this.gpus),
    values=pw.reducers.tuple(pw.this.values),
)
records = windows.select(value=record(pw.this.start_ms, pw.this.gpus, pw.this.values))
pw.io.kafka.write(records, KAFKA, topic_name=os.environ["SINK"], format="plaintext", value=records.value)

if __name__ == "__main__":
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
