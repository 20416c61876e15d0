"""Reads the objects of a job, as they stand in YAML or JSON files; checked before anything is sent."""

import re
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dutycycle.contract.errors import SettingError
from dutycycle.encodings import encoding_by_mark

_ENDLESS = re.compile(
    r"(?!(?:JobSet|MiniCluster)$)(?:(?:Cron|Scheduled)\w+"
    r"|\w*(?:Deployment(?:Config)?|Service|Server|Set|Controller|Cluster|CronJob)"
    r"|InferenceGraph|Notebook|Rollout|Sandbox|ScaledJob|SparkConnect|Tensorboard|Workspace"
    r"|Model|ModelServing|PodClique|RoleBasedGroup|VLLMRuntime|VirtualMachine(?:Instance)?|\w+WorkerGroup"
    r"|Nemo(?:Customizer|Datastore|Entitystore|Evaluator|Guardrail)|NIMPipeline|ModelBooster|KVCache"
    r"|\w+(?:Fleet|Failover)|postgresql)"
)
"""Kinds whose pods are to run for ever, or that make new ones for ever. Such kinds are called alike."""
_TEMPLATES = re.compile(
    r"(?!VLLM)\w*(?:Template|Runtime|StorageContainer)|(?:Cluster)?Task|Pipeline|StepAction"
    r"|LLMInferenceServiceConfig"
)
"""Kinds that say what containers pods have, and make none."""
_MAKERS = re.compile(
    r"\w*(?:Job|Workflow|InferenceService)|(?:Task|Pipeline)Run|(?:Scheduled)?SparkApplication|FlinkDeployment"
)
"""Kinds that make pods, though what runs in them may stand in another object."""
_NO_SPEC = frozenset({"apiVersion", "kind", "metadata", "status"})
_HELM = re.compile(r"\{\{-? *(?:[.$\w(]|/\*)|^(?:MANIFEST|NOTES):$", re.MULTILINE).search
_UNRENDERED = ": it looks like a template or an answer of Helm: give what helm template RELEASE CHART prints"
OF_CHART = ("values", "valuesObject")
"""What an object gives to a Helm chart, as a HelmRelease does: only the chart knows what it makes of it."""
_MAKING = ("create", "apply")
"""What a template of an Argo workflow does to an object so that it is there."""
_FILLED_IN = re.compile(r"\{\{[^{}]*\}\}")
_MOST_VALUES = 1_000_000
_MOST_OBJECTS = 100_000
_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_READ_OTHERWISE = (_INT, _FLOAT, "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")
_WHOLE_NUMBER = re.compile(
    r"[-+]?(?:0b[01][01_]*|0x[0-9a-fA-F][0-9a-fA-F_]*|0o[0-7][0-7_]*|0[0-7_]*|[1-9][0-9_]*)$"
)
_NUMBER = re.compile(
    r"[-+]?(?:\.[0-9][0-9_]*|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]{1,2})?$"
    r"|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
)


@dataclass(frozen=True, slots=True)
class ManifestDocument:
    """Holds one object. ``where``: the file and the place in it, for messages."""

    thing: Mapping[str, Any]
    where: str

    @property
    def api_version(self) -> str:
        """Return its version, such as ``batch/v1``."""
        return str(self.thing["apiVersion"])

    @property
    def group(self) -> str:
        """Return the group of its version, such as ``batch``; empty for that of a Pod."""
        return self.api_version.rpartition("/")[0]

    @property
    def kind(self) -> str:
        """Return its kind, such as ``Job``."""
        return str(self.thing["kind"])

    @property
    def name(self) -> str:
        """Return its own name, or what was made of ``generateName``."""
        return str(self.thing["metadata"]["name"])

    @property
    def written_name(self) -> str:
        """Return its own name, or its ``generateName`` as it stands in the file: the same each time that it
        is read."""
        prefix = str(self.thing["metadata"].get("generateName") or "")
        return prefix if prefix and self.name.startswith(prefix) else self.name

    @property
    def namespace(self) -> str | None:
        """Return the namespace that it names itself; None where it names none."""
        namespace: str | None = self.thing["metadata"].get("namespace")
        return namespace

    @property
    def spec(self) -> Mapping[str, Any]:
        """Return its spec. Of another's kind without one, such as a Workspace of KAITO, that is all of it but
        its name and state; else it is empty."""
        spec = self.thing.get("spec")
        if "spec" not in self.thing and self.is_of_others:
            return {key: value for key, value in self.thing.items() if key not in _NO_SPEC}
        return spec if isinstance(spec, Mapping) else {}

    @property
    def is_of_others(self) -> bool:
        """Tell whether its kind is neither of Kubernetes itself nor of a project of it."""
        return "." in self.group and not self.group.endswith((".k8s.io", ".x-k8s.io"))

    @property
    def has_pods(self) -> bool:
        """Tell whether it is a pod or makes pods: it says what runs in them, or is of a kind that makes
        some."""
        if _TEMPLATES.fullmatch(self.kind):
            return False
        return _MAKERS.fullmatch(self.kind) is not None or _has_containers(self.spec)

    @property
    def may_have_pods(self) -> bool:
        """Tell whether its kind is another's of which it is not known here whether it makes pods."""
        return self.is_of_others and not self.has_pods and _TEMPLATES.fullmatch(self.kind) is None

    @property
    def is_template(self) -> bool:
        """Tell whether it says what containers pods have, and makes none."""
        return _TEMPLATES.fullmatch(self.kind) is not None and _has_containers(self.spec)

    @property
    def never_ends(self) -> bool:
        """Tell whether its pods are to run for ever."""
        return _ENDLESS.fullmatch(self.kind) is not None

    @property
    def runs_in(self) -> str | None:
        """Name the object in whose pods its work runs; None where they are its own."""
        selector = self.spec.get("clusterSelector") if self.kind == "RayJob" else None
        if not isinstance(selector, Mapping) or not selector:
            return None
        return f"the RayCluster with {', '.join(f'{key}={value}' for key, value in selector.items())}"

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


class KubectlLoader(yaml.SafeLoader):
    """Reads YAML as kubectl does: a date and ``12:30`` are texts, ``1e-3`` is a number, and a key that an
    object has twice is refused, since of the two values one would be lost.

    Without it times of an argument would be sent as another value. See goyaml.v2/resolve.go of
    https://github.com/kubernetes-sigs/yaml.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Make an object. Raises ``yaml.YAMLError``."""
        keys = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in keys:
                    problem = f"the key {key.value} stands twice in one object: take one of them out"
                    raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
                keys.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Make any value. Raises ``yaml.YAMLError``, also for one that is none of its tag, as ``!!int x``."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError) as error:
            problem = f"{node.value!r:.60} is no value of the type {node.tag.rpartition(':')[2]}"
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark) from error


KubectlLoader.yaml_implicit_resolvers = {
    first: [(tag, matches) for tag, matches in resolvers if tag not in _READ_OTHERWISE]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
KubectlLoader.add_implicit_resolver(_INT, _WHOLE_NUMBER, list("-+0123456789"))
KubectlLoader.add_implicit_resolver(_FLOAT, _NUMBER, list("-+.0123456789"))


def read_documents(files: Sequence[str], *, templates: bool = False) -> list[ManifestDocument]:
    """Return the objects of all files, in their order. Raises ``SettingError``, also where none makes pods;
    with ``templates`` one that says what pods have is enough."""
    documents = [document for file in files for document in _of_file(file)]
    seen: dict[tuple[str, str, str, str | None], ManifestDocument] = {}
    for document in documents:
        who = document.group, document.kind, document.name, document.namespace
        if who in seen:
            raise SettingError(f"{document.where}: {document} stands in {seen[who].where} already")
        seen[who] = document
    if not any(document.has_pods or (templates and document.is_template) for document in documents):
        raise SettingError(
            f"{', '.join(files)}: no object in it is known to make pods: expected a Pod, a Job, or another "
            "kind whose spec has containers or an image"
        )
    return documents


def _of_file(file: str) -> Iterator[ManifestDocument]:
    name = "standard input" if file == "-" else file
    try:
        content = b"" if file == "-" else Path(file).read_bytes()
        # kubectl get -o yaml > FILE of PowerShell makes one in UTF-16.
        text = sys.stdin.read() if file == "-" else content.decode(encoding_by_mark(content) or "utf-8")
        things = list(yaml.load_all(text, KubectlLoader))
    except OSError as error:
        raise SettingError(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingError(f"{name}: is no text in UTF-8 or UTF-16: save it in UTF-8") from error
    except yaml.YAMLError as error:
        fix = _UNRENDERED if _HELM(text) else ""
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark is not None else ""
        problem = " ".join(str(getattr(error, "problem", None) or error).split())[:200]
        raise SettingError(f"{name}{place}: is no YAML: {problem}{fix}") from error
    number = 0
    for thing in things:
        if thing is None:  # nothing between two lines of ---
            continue
        for member in _members(thing):
            number += 1
            if number > _MOST_OBJECTS:
                raise SettingError(f"{name}: has more than {_MOST_OBJECTS:,} objects")
            if _has_too_many_values(member):
                raise SettingError(
                    f"{name}, object {number}: its aliases (*name) make more than {_MOST_VALUES:,} values of "
                    "it, or stand in what they name"
                )
            yield _document(member, f"{name}, object {number}")
    if not number:
        raise SettingError(f"{name}: there is no object in it")


def _has_too_many_values(thing: Any) -> bool:
    """Tell whether it has more values than an object that the API server takes, when it is read as a tree."""
    waiting, count = [thing], 0
    while waiting and count <= _MOST_VALUES:
        count += 1
        part = waiting.pop()
        waiting.extend(part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())
    return count > _MOST_VALUES


def _members(thing: Any, levels: int = 2) -> Iterator[Any]:
    """Yield the objects of a list, and of lists in it, which cannot be in themselves without end; an object
    that is none by itself."""
    is_list = isinstance(thing, dict) and str(thing.get("kind", "")).endswith("List") and "items" in thing
    if levels and is_list and isinstance(thing["items"], list | None):
        for member in thing["items"] or ():
            yield from _members(member, levels - 1)
    else:
        yield thing


def _document(thing: object, where: str) -> ManifestDocument:
    if not isinstance(thing, dict):
        raise SettingError(f"{where}: is no object: expected apiVersion, kind and metadata")
    if str(thing.get("apiVersion")).startswith("kustomize.config.k8s.io/") or (
        "apiVersion" not in thing and re.search(r"kustomization\.ya?ml,", where)
    ):
        raise SettingError(f"{where}: is a file of kustomize: give what kubectl kustomize FOLDER prints")
    for key in ("apiVersion", "kind"):
        if not isinstance(thing.get(key), str) or not thing[key]:
            raise SettingError(f"{where}: has no {key}")
    meta = thing.get("metadata")
    if not isinstance(meta, dict) or (_is_absent(meta.get("name")) and _is_absent(meta.get("generateName"))):
        raise SettingError(f"{where}: the {thing['kind']} has no metadata.name")
    for key in ("name", "generateName", "namespace"):
        if not isinstance(meta.get(key), str | None):
            raise SettingError(f"{where}: metadata.{key} is {meta[key]!r}: put it in quotes")
    if _is_absent(meta.get("name")):
        # Here, not by the API server: a name that is known beforehand can be looked for after a lost answer.
        meta = meta | {"name": meta["generateName"] + random_suffix()}
    meta = {key: value for key, value in meta.items() if key != "namespace" or value is not None}
    return ManifestDocument(thing | {"metadata": meta}, where)


def _is_absent(name: object) -> bool:
    """Tell whether there is no name: ``no`` and ``0`` are some, which YAML takes for something else."""
    return name is None or name == ""


def image_in(part: Mapping[str, Any]) -> str | None:
    """Return the image that a part of an object names beside what else it says of a container; None for none.

    Operators such as that of NIM have an object for it, of ``repository`` and ``tag``.
    """
    image = part.get("image")
    if isinstance(image, Mapping) and isinstance(image.get("repository"), str):
        registry, tag = image.get("registry"), image.get("tag")
        path = image["repository"] if not registry else f"{registry}/{image['repository']}"
        return path if tag is None else f"{path}:{tag}"
    return image if isinstance(image, str) else None


def objects_to_make(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the objects that a template of an Argo workflow makes, which stand in it as a text; none where
    it makes none, or where what is filled in later leaves no YAML."""
    resource = part.get("resource")
    if not isinstance(resource, Mapping) or resource.get("action") not in _MAKING:
        return []
    try:
        # What is filled in later is a text, which YAML would take for an object.
        text = _FILLED_IN.sub(r"<\g<0>>", str(resource.get("manifest") or ""))
        things = list(yaml.load_all(text, KubectlLoader))
    except yaml.YAMLError:
        return []
    return [
        thing if isinstance(thing.get("metadata"), dict) else thing | {"metadata": {}} for thing in things
        if isinstance(thing, dict) and isinstance(thing.get("kind"), str) and "apiVersion" in thing
    ]  # fmt: skip


def _has_containers(part: object) -> bool:
    """Tell whether ``containers`` or an ``image`` stand anywhere in it: in the spec of a pod, or in a
    template."""
    if isinstance(part, dict):
        if isinstance(part.get("containers"), list) or image_in(part) is not None:
            return True
        inner = (value for name, value in part.items() if name not in OF_CHART)
        return any(map(_has_containers, [*inner, *objects_to_make(part)]))
    return isinstance(part, list) and any(map(_has_containers, part))


def random_suffix() -> str:
    """Make the end of a name that nobody has yet, of the letters that the API server takes for that."""
    return "".join(secrets.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(5))
