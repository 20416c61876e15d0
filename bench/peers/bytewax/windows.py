"""Tumbling windows in Bytewax: ``python -m bytewax.run windows:flow``."""

import os
from datetime import UTC, datetime, timedelta

import bytewax.operators as op
import orjson
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSourceMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import EventClock, TumblingWindower, fold_window
from fold import first, fold, result

BROKERS = [os.environ["BROKER"]]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decoded(message: KafkaSourceMessage) -> tuple[str, dict]:
    return message.key.decode(), orjson.loads(message.value)


def measured(sample: dict) -> datetime:
    return EPOCH + timedelta(milliseconds=sample["ts_ms"])


def folded(so_far: dict | None, sample: dict) -> dict:
    return first(sample) if so_far is None else fold(so_far, sample)


def record(item: tuple[str, tuple[int, dict]]) -> KafkaSinkMessage:
    key, (window, so_far) = item
    value = {"start_ms": window * 10_000, "metrics": result(so_far)}
    return KafkaSinkMessage(key.encode(), orjson.dumps(value))


flow = Dataflow("windows")
source = kop.input("source", flow, brokers=BROKERS, topics=[os.environ["SOURCE"]])
samples = op.map("decode", source.oks, decoded)
windows = fold_window(
    "windows",
    samples,
    EventClock(measured, wait_for_system_duration=timedelta(seconds=10)),
    TumblingWindower(length=timedelta(seconds=10), align_to=EPOCH),
    builder=lambda: None,
    folder=folded,
    merger=lambda ours, _: ours,  # tumbling windows never merge
    ordered=False,  # samples of a node are in order
)
kop.output("sink", op.map("encode", windows.down, record), brokers=BROKERS, topic=os.environ["SINK"])
