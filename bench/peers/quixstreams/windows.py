"""Tumbling windows in Quix Streams, with its changelog, which is on by default."""

import os
import sys

from fold import first, fold, result
from quixstreams import Application

app = Application(
    broker_address=os.environ["BROKER"],
    consumer_group=os.environ["GROUP"],
    auto_offset_reset="earliest",
    state_dir=sys.argv[1],
)
source = app.topic(os.environ["SOURCE"])
sink = app.topic(os.environ["SINK"])
windows = (
    app.dataframe(source).tumbling_window(duration_ms=10_000, grace_ms=10_000).reduce(fold, first).final()
)
windows.apply(lambda window: {"start_ms": window["start"], "metrics": result(window["value"])}).to_topic(sink)

if __name__ == "__main__":
    app.run()
