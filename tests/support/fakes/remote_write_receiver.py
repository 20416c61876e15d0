"""A receiver of Prometheus' remote write on loopback, that answers as a test says.

Google's library reads the requests.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import cramjam
from aiohttp import web
from aiohttp.test_utils import TestServer
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.text_format import Parse

# Of https://github.com/prometheus/prometheus/blob/main/prompb: what a sender of samples writes.
_REMOTE = """
name: "remote.proto" package: "prometheus" syntax: "proto3"
message_type { name: "WriteRequest"
  field { name: "timeseries" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: "TimeSeries" } }
message_type { name: "TimeSeries"
  field { name: "labels" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: "Label" }
  field { name: "samples" number: 2 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: "Sample" } }
message_type { name: "Label"
  field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING } }
message_type { name: "Sample"
  field { name: "value" number: 1 label: LABEL_OPTIONAL type: TYPE_DOUBLE }
  field { name: "timestamp" number: 2 label: LABEL_OPTIONAL type: TYPE_INT64 } }
"""
_pool = DescriptorPool()
_pool.Add(Parse(_REMOTE, FileDescriptorProto()))
_WriteRequest: Any = GetMessageClass(_pool.FindMessageTypeByName("prometheus.WriteRequest"))
Row = tuple[list[tuple[str, str]], float, int]
"""Labels as they were sent, the value, Unix milliseconds."""


def decoded(body: bytes) -> list[Row]:
    """The samples of a request."""
    request = _WriteRequest.FromString(bytes(cramjam.snappy.decompress_raw(body)))
    return [
        ([(label.name, label.value) for label in series.labels], sample.value, sample.timestamp)
        for series in request.timeseries
        for sample in series.samples
    ]


class Receiver:
    """``answers``: status, text and headers of the next requests; then each is taken."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str, dict[str, str]]] = []
        self.taken: list[list[Row]] = []
        self.headers: list[dict[str, str]] = []
        """Of every request, taken or not."""

    @asynccontextmanager
    async def listening(self, port: int = 0, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        """Answer until the block ends; gives the URL."""
        app = web.Application()
        app.router.add_post("/api/v1/write", self._answer)
        server = TestServer(app, port=port)
        await server.start_server(ssl=tls, access_log=None)
        async with server:
            yield str(server.make_url("/api/v1/write"))

    async def _answer(self, request: web.Request) -> web.Response:
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        body = await request.read()
        if self.answers:
            status, text, headers = self.answers.pop(0)
            return web.Response(status=status, text=text, headers=headers)
        self.taken.append(decoded(body))
        return web.Response(status=204)
