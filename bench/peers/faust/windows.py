"""Tumbling windows in plain Faust: a windowed table, with its changelog.

No ``expires``: Faust expires windows by the wall clock, which would drop the windows of a backlog while they
are filled. So a window is sent when the next one of its node begins.
"""

import os
import sys

import faust
from fold import first, fold, result

WINDOW_S = 10
app = faust.App(
    os.environ["GROUP"],
    broker=f"aiokafka://{os.environ['BROKER']}",
    datadir=sys.argv[1],
    topic_partitions=int(os.environ["PARTITIONS"]),
    web_enabled=False,
)
source = app.topic(os.environ["SOURCE"], value_serializer="json", key_serializer="raw")
sink = app.topic(os.environ["SINK"], value_serializer="json", key_serializer="raw")
windows = app.Table("windows", default=dict).tumbling(WINDOW_S).relative_to_stream()


@app.agent(source)
async def fold_samples(stream):
    async for key, sample in stream.items():
        window_set = windows[key.decode()]
        so_far = window_set.value()
        windows[key.decode()] = fold(so_far, sample) if so_far else first(sample)
        before = None if so_far else window_set.delta(WINDOW_S)
        if before:
            start_ms = (sample["ts_ms"] // 1000 // WINDOW_S - 1) * WINDOW_S * 1000
            await sink.send(key=key, value={"start_ms": start_ms, "metrics": result(before)})


if __name__ == "__main__":
    faust.Worker(app, loglevel="warning").execute_from_commandline()
