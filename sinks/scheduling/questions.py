"""Reads what kube-scheduler asks an extender: of a pod, and of nodes by name or as whole objects.

The protocol is that of ``k8s.io/kube-scheduler/extender/v1``: JSON, the fields named as in Go.
"""

import re
import secrets
from dataclasses import dataclass
from typing import Any

import msgspec

from dutycycle.kube.references import KubeObject

LARGEST = 64 * 1024**2
"""Bytes of a question: without ``nodeCacheCapable`` it holds all nodes whole, ten kilobytes each."""
_NODES = re.compile(rb'"Nodes":\{(?:"metadata":\{[^{}]*\},)?"items":\[')
_NAME_FIRST = re.compile(rb'\{"metadata":\{"name":"([^"\\]+)"')
"""How Go writes a node. Its name is all that is read, of some kilobytes."""
_NEXT_NODE = b',{"metadata":{"name":"'


class BadRequestError(Exception):
    """Says what is missing in what is no request of a kube-scheduler."""


class _NodeList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _ExtenderArgs(msgspec.Struct, rename="pascal"):
    pod: dict[str, Any] | None = None
    nodes: _NodeList | None = None
    node_names: list[str] | None = None


class _Meta(msgspec.Struct):
    name: str


class _NamedNode(msgspec.Struct):
    metadata: _Meta


_Parts = tuple[_ExtenderArgs, list[str], list[msgspec.Raw]]
"""A question, the names of its whole nodes, and these."""
_ARGS, _NODE = msgspec.json.Decoder(_ExtenderArgs), msgspec.json.Decoder(_NamedNode)


@dataclass(frozen=True, slots=True)
class PlacementQuestion:
    """Holds what kube-scheduler asks: of a pod, and of nodes by their names.

    ``nodes``: the same nodes as whole objects, as they came, where the scheduler sends those
    (``nodeCacheCapable: false``). It takes them from the answer, so they go back as they are.
    """

    pod: KubeObject
    names: list[str]
    nodes: list[msgspec.Raw] | None = None


@dataclass(slots=True)
class _RememberedNode:
    """Remembers a node of the last question. ``key``: the bytes of its name; ``after``: of the node that
    followed it in the last question."""

    key: bytes
    name: str
    raw: msgspec.Raw
    after: bytes = b""


class QuestionReader:
    """Reads questions, and remembers the whole nodes in them.

    The next question has nearly all of them again, byte for byte and mostly in the same order; to compare
    costs a sixth of reading JSON.
    """

    def __init__(self) -> None:
        self._remembered: dict[bytes, _RememberedNode] = {}
        """By ``key``."""
        self._remembered_bytes = 0
        self._in_their_place = f'"{secrets.token_hex(16)}"'.encode()
        """What stands where the nodes were cut out. Nobody else can write it, so it shows whether they were
        the nodes that are asked about."""

    def read(self, body: bytearray) -> PlacementQuestion:
        """Keep nothing of ``body``. Raise ``BadRequestError``, or ``ValueError`` for what is no such JSON."""
        parts = self._read_as_go_writes(body)
        if parts is None:
            args = _ARGS.decode(bytes(body))  # nodes keep what they stand in, and the body is used again
            whole = (args.nodes and args.nodes.items) or []
            parts = args, [_NODE.decode(node).metadata.name for node in whole], whole
        args, names, nodes = parts
        pod = args.pod
        if pod is None:
            raise BadRequestError("Pod is missing")
        if not isinstance(pod.get("spec"), dict) or not isinstance(pod.get("metadata"), dict):
            raise BadRequestError("Pod has no spec, or no metadata")
        if args.node_names is not None:
            return PlacementQuestion(pod, args.node_names)
        return PlacementQuestion(pod, names, nodes)

    def _read_as_go_writes(self, body: bytearray) -> _Parts | None:
        """Cuts the nodes out of the JSON, and reads the rest; None where it must be read in the usual way.

        A node ends where the one that was read once did, or where its bytes are one JSON value.
        """
        begin = _NODES.search(body)
        if begin is None:
            return None
        names: list[str] = []
        nodes: list[msgspec.Raw] = []
        at, before = begin.end(), _RememberedNode(b"", "", msgspec.Raw())
        while True:
            node = self._remembered.get(before.after)
            if node is None or not body.startswith(node.raw, at):  # not what followed the last time
                if (match := _NAME_FIRST.match(body, at)) is None:
                    if names:  # a comma, and then no node of this shape
                        return None
                    break
                node = self._remembered.get(match[1])
                if node is None or not body.startswith(node.raw, at):
                    node = self._remember(match[1], body, at)
                    if node is None:
                        return None
                before.after = node.key
            names.append(node.name)
            nodes.append(node.raw)
            at += len(node.raw)
            before = node
            if not body.startswith(b",", at):
                break
            at += 1
        try:
            args = _ARGS.decode(body[: begin.end()] + self._in_their_place + body[at:])
        except msgspec.DecodeError:
            return None
        left = [] if args.nodes is None else args.nodes.items or []
        return (args, names, nodes) if [bytes(raw) for raw in left] == [self._in_their_place] else None

    def _remember(self, key: bytes, body: bytearray, at: int) -> _RememberedNode | None:
        """Return the node that begins ``at``, read once; None where no node of this shape does."""
        end = body.find(_NEXT_NODE, at)
        raw = msgspec.Raw(bytes(body[at : end if end > 0 else body.rfind(b"]")]))
        try:
            name = _NODE.decode(raw).metadata.name
        except msgspec.DecodeError:
            return None
        before = self._remembered.pop(key, None)
        self._remembered_bytes += len(raw) - (0 if before is None else len(before.raw))
        if self._remembered_bytes > LARGEST:  # nodes come and go
            self._remembered.clear()
            self._remembered_bytes = len(raw)
        node = _RememberedNode(key, name, raw, b"" if before is None else before.after)
        self._remembered[key] = node
        return node
