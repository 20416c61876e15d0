"""Asks the kubelet, on its Unix socket, which devices each container has. The only importer of grpc."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc

from collectors.attribution.kubelet import api_pb2
from collectors.attribution.kubelet.types import AllocatedDevice, KubeletError

_METHOD = "/v1.PodResourcesLister/List"
_ANSWER_S = 5.0
_LARGEST_BYTES = 16 * 1024 * 1024
"""What the kubelet's own client takes; gRPC's default of 4 MiB is too small for a full node."""


class KubeletClient:
    """Holds one connection, made at the first question and again after a failure."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._channel: Any = None

    def devices(self) -> list[AllocatedDevice]:
        """Return every device of every container on the node, of whatever plugin. Raises ``KubeletError``."""
        if self._channel is None:
            options = [("grpc.max_receive_message_length", _LARGEST_BYTES), ("grpc.enable_http_proxy", 0)]
            self._channel = grpc.insecure_channel(f"unix:{self._socket}", options=options)
        list_pods = self._channel.unary_unary(
            _METHOD,
            request_serializer=api_pb2.ListPodResourcesRequest.SerializeToString,
            response_deserializer=api_pb2.ListPodResourcesResponse.FromString,
        )
        try:
            answer = list_pods(api_pb2.ListPodResourcesRequest(), timeout=_ANSWER_S)
        except grpc.RpcError as error:
            self.close()
            # Status and words of a failed call, in one line
            details = " ".join(str(error.details()).split())
            in_one_line = f"{error.code().name}: {details:.200}"
            raise KubeletError(f"{self._socket}: {in_one_line}") from error
        if not answer.pod_resources:
            raise KubeletError(f"{self._socket}: no pod is listed, as by a kubelet that has just begun")
        return [
            AllocatedDevice(pod.namespace, pod.name, container.name, device_id)
            for pod in answer.pod_resources
            for container in pod.containers
            for device_id in _device_ids(container)
        ]

    def close(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def _device_ids(container: api_pb2.ContainerResources) -> Iterator[str]:
    for devices in container.devices:
        yield from devices.device_ids
    for claim in container.dynamic_resources:
        for resource in claim.claim_resources:
            for device in resource.cdi_devices:
                kind, _, device_id = device.name.rpartition("=")
                if ".nvidia.com/" in f".{kind}":  # drivers of other devices name theirs alike
                    yield device_id
