"""A kubelet's pod-resources interface: a real gRPC server on a Unix socket, with answers of the test's."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from collectors.attribution.kubelet import api_pb2

PodResources = api_pb2.PodResources


class FakeKubelet:
    """Answers ``pods``; with ``refuses`` set, that status instead."""

    def __init__(self) -> None:
        self.pods: list[PodResources] = []
        self.refuses: grpc.StatusCode | None = None
        self.asked = 0

    def give(self, pod: str, *device_ids: str, container: str = "main") -> None:
        """The pod has a container with these devices of the GPU plugin."""
        devices = [api_pb2.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=list(device_ids))]
        one = api_pb2.ContainerResources(name=container, devices=devices)
        self.pods.append(PodResources(name=pod, namespace="team", containers=[one]))

    def list(self, _request: Any, context: Any) -> api_pb2.ListPodResourcesResponse:
        """The call ``List``."""
        self.asked += 1
        if self.refuses is not None:
            context.abort(self.refuses, "rejected by rate limit")
        return api_pb2.ListPodResourcesResponse(pod_resources=self.pods)


@contextmanager
def kubelet_on(socket: Path, kubelet: FakeKubelet) -> Iterator[None]:
    """Serve ``kubelet`` on ``socket``."""
    method = grpc.unary_unary_rpc_method_handler(
        kubelet.list,
        request_deserializer=api_pb2.ListPodResourcesRequest.FromString,
        response_serializer=api_pb2.ListPodResourcesResponse.SerializeToString,
    )
    server = grpc.server(ThreadPoolExecutor(1))
    handlers = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": method})
    server.add_generic_rpc_handlers((handlers,))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait(5.0)
