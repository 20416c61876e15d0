"""Finds the pods that the objects of a file ask for, as far as the file says what runs in them. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from dutycycle.kube.resources import gpu_request
from dutycycle.submit.amounts import refused_amount, refused_amounts
from dutycycle.submit.claims import UnknownClaimError, claimed_gpus
from dutycycle.submit.documents import OF_CHART, KubectlLoader, ManifestDocument, image_in, objects_to_make

Spec = Mapping[str, Any]
_TRAINER = "node"
"""How the runtimes of Kubeflow call the job, and its container, that a TrainJob's trainer runs in."""
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_DYNAMO = "gpu", "gpuType", "custom"
_CLAIMS = "draResources"
"""How the resource claims of its pods are called in a NIMService."""
_BESIDE = "sidecars", "initContainers"
_DEFAULTS = "templateDefaults"
"""Of an Argo workflow: what its templates have where they do not say it."""
_PARTS = {"InferenceService": ("predictor", "transformer", "explainer", "engine", "decoder", "router")}
"""Parts of a kind's spec that have pods of their own each."""
_REFERENCES = {
    "workflowTemplateRef": "WorkflowTemplate",
    "templateRef": "WorkflowTemplate",
    "taskRef": "Task",
    "pipelineRef": "Pipeline",
}


@dataclass(frozen=True, slots=True)
class AskedPod:
    """Holds a pod template of a file. ``role``: where it stands in it, such as ``Worker``. ``note``: what the
    file does not say of it; None where it says all. ``refused``: sentences on what the API server refuses of
    it. ``claimed``: the GPUs of its resource claims; None where they are not known. ``annotations``: those of
    the template."""

    role: str
    namespace: str
    spec: Spec
    note: str | None = None
    refused: tuple[str, ...] = ()
    claimed: float | None = None
    annotations: Spec = field(default_factory=dict)

    @property
    def gpus(self) -> float | None:
        """Return how many GPUs it asks for, slices and shares too; 0 for none, None where it may be some."""
        return gpu_request(self.spec, self.annotations, self.claimed)


@dataclass(frozen=True, slots=True)
class _Around:
    """Holds what a part of an object says of all pods below it. ``resources``: of a container without its
    own; ``patch``: those that a workflow puts in their place; ``defaults``: what its containers have else;
    ``sidecars`` and ``before``: containers that run beside one that stands by itself, and before it;
    ``refused``: sentences on what the API server refuses of these."""

    annotations: Spec
    resources: Spec = field(default_factory=dict)
    patch: Spec = field(default_factory=dict)
    defaults: Spec = field(default_factory=dict)
    sidecars: Sequence[Any] = ()
    before: Sequence[Any] = ()
    refused: tuple[str, ...] = ()

    def within(self, part: Spec, path: str) -> "_Around":
        """Return the same with what ``part``, which stands at ``path``, says of what is in it."""
        beside = {name: part[name] for name in _BESIDE if isinstance(part.get(name), list)}
        return _Around(
            _annotations(part) or self.annotations,
            _resources(part) or self.resources,
            _patched_resources(part.get("podSpecPatch")) or self.patch,
            _object(part.get(_DEFAULTS)) or self.defaults,
            beside.get("sidecars", self.sidecars),
            beside.get("initContainers", self.before),
            (*self.refused, *refused_amounts(beside, path)),
        )


@dataclass(frozen=True, slots=True)
class AskedPods:
    """Holds the pods of an object; ``missing`` says why there are none."""

    pods: Sequence[AskedPod]
    missing: str | None = None


def pods_of(
    document: ManifestDocument, namespace: str, documents: Sequence[ManifestDocument] = ()
) -> AskedPods:
    """Return the pod templates of an object; ``namespace``: of one that names none.

    ``documents``: all of the files, in which the runtime of a TrainJob may stand, the template of a Workflow,
    or what a resource claim asks for. A template counts by itself where none of them makes pods.
    """
    asked = _pods_of(document, namespace, documents)
    pods = []
    for pod in asked.pods:
        claimed, note = pod.claimed, pod.note
        if pod.spec.get("resourceClaims"):
            try:
                claimed = claimed_gpus(pod.spec, pod.namespace, documents)
            except UnknownClaimError as error:
                note = "; ".join(filter(None, (note, str(error))))
        refused = pod.refused or tuple(_refused_programs(pod.spec, is_own=not document.is_of_others))
        pods.append(replace(pod, refused=refused, claimed=claimed, note=note))
    return replace(asked, pods=pods)


def _refused_programs(spec: Spec, *, is_own: bool) -> Iterator[str]:
    """Yield a sentence for each image, command and argument of a pod that the API server refuses, as it is no
    text, and for what is no container. ``is_own``: the kind is of Kubernetes itself."""
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        if not isinstance(container, Mapping):
            yield f"{container!r}, which is no container"
            continue
        for key in ("image", "command", "args"):
            value = container.get(key)
            if value is None:
                continue
            # The command of a kind of others' may be one text.
            if is_own and key != "image" and isinstance(value, str):
                yield f"{key} of container {container.get('name')}: {value!r} is no list: write [{value!r}]"
            for part in value if isinstance(value, list) and key != "image" else [value]:
                if not isinstance(part, str):
                    yield f"{key} of container {container.get('name')}: {part!r} is no text: put it in quotes"


def _pods_of(document: ManifestDocument, namespace: str, documents: Sequence[ManifestDocument]) -> AskedPods:
    if not document.has_pods and not (
        document.is_template and not any(other.has_pods for other in documents)
    ):
        return AskedPods((), "it makes no pods")
    spec, own = document.spec, document.namespace or namespace
    if document.kind == "TrainJob":
        return _train_job(spec, own, documents)
    if document.kind.endswith("SparkApplication"):
        return AskedPods(list(_spark(spec, own)))
    root = "spec" if "spec" in document.thing else document.kind.lower()
    annotations = _annotations(document.thing) if document.kind == "Pod" else {}
    pods = [
        AskedPod(role, own, pod, refused=refused, annotations=of_pod)
        for role, pod, refused, of_pod in _specs(spec, "", root, _Around(annotations))
    ]
    missing = [
        f"no prediction of its {part}: what it runs does not stand in the file: its controller adds it"
        for part in _PARTS.get(document.kind, ())
        if pods and isinstance(spec.get(part), Mapping) and not any(_specs(spec[part], "", "", _Around({})))
    ]
    for asked in (*_made(spec, own, documents), *_referred(document, own, documents)):
        pods += asked.pods
        missing += [] if asked.missing is None else [asked.missing]
    missing = list(dict.fromkeys(missing)) if pods or missing else [_why_none(document)]
    return AskedPods(pods, "; ".join(missing) or None)


def _refused(part: Any, path: str) -> tuple[str, ...]:
    return tuple(refused_amounts(part, path))


def _annotations(part: Spec) -> Spec:
    """Return those that are texts, in the metadata of an object or template."""
    annotations = _object(_object(part.get("metadata")).get("annotations"))
    return {key: value for key, value in annotations.items() if isinstance(value, str)}


def _specs(
    part: Any, role: str, path: str, around: _Around
) -> Iterator[tuple[str, Spec, tuple[str, ...], Spec]]:
    """Yield pod specs in ``part``, which stands at ``path``: the name of what holds their template, the spec,
    sentences on the amounts that the API server refuses, and the annotations of its template."""
    if isinstance(part, Mapping):
        if (pod := _pod_of(part, around)) is not None:
            spec, made_of = pod
            yield role, spec, (*_refused(made_of, path), *around.refused), around.annotations
            return
        around = around.within(part, path)
        for name, inner in part.items():
            if name == "containers" and "image" in _object(inner):  # one, and no list: it is refused
                yield role, {"containers": []}, _refused({name: inner}, path), around.annotations
                continue
            # Those are beside what is read here; and the image of a disk runs in no container.
            is_beside = name in _BESIDE and isinstance(inner, list)
            if is_beside or name in (_DEFAULTS, "volumes", *OF_CHART):
                continue
            if name in ("container", "script") and isinstance(inner, Mapping):
                inner = {**_object(around.defaults.get(name)), **inner}
            unnamed = name in ("template", "spec", "container", "script", "containerSet")
            yield from _specs(inner, role if unnamed else str(name), f"{path}.{name}", around)
    elif isinstance(part, list):
        for number, inner in enumerate(part):
            names = inner if isinstance(inner, Mapping) else {}
            named = names.get("name") or names.get("groupName") or role
            yield from _specs(inner, str(named), f"{path}[{number}]", around)


def _pod_of(part: Spec, around: _Around) -> tuple[Spec, Spec] | None:
    """Return the pod spec that a part of an object is, and what of it can be refused; None for none.

    A container that stands by itself, as in a template of an Argo workflow, is a pod, with the containers
    beside it. Without resources of its own it has those around it, as in a DynamoGraphDeployment. The steps
    of a Tekton task are the containers of a pod.
    """
    steps = part.get("steps")
    if isinstance(part.get("containers"), list):
        pod, made_of = {**part, "containers": [*part["containers"], *around.sidecars]}, part
    elif (image := image_in(part)) is not None:
        made_of = {**({"resources": around.resources} if around.resources else {}), **part, "image": image}
        if around.patch:
            made_of["resources"] = _merge_resources(made_of.get("resources"), around.patch)
        pod = {"containers": [made_of, *around.sidecars]}
        if part.get(_CLAIMS):
            pod = {**pod, "resourceClaims": part[_CLAIMS]}
    elif isinstance(steps, list) and any(_object(step).keys() & {"image", "ref"} for step in steps):
        template, sidecars = _object(part.get("stepTemplate")), part.get("sidecars")
        containers = [_container_of_step(step, template) for step in steps]
        pod = {"containers": [*containers, *(sidecars if isinstance(sidecars, list) else ())]}
        made_of = part
    else:
        return None
    if around.before:
        own = pod.get("initContainers")
        pod = {**pod, "initContainers": [*around.before, *(own if isinstance(own, list) else ())]}
    return pod, made_of


def _container_of_step(step: Any, template: Spec) -> Any:
    """Return a step of a Tekton task as a container, with what the template of all steps says. What it asks
    for is called ``computeResources`` since v1."""
    if not isinstance(step, Mapping):
        return step
    of_all, own = ((part.get("computeResources") or part.get("resources")) for part in (template, step))
    return {**template, **step, "resources": _merge_resources(of_all, _object(own))}


def _patched_resources(patch: Any) -> Spec:
    """Return the resources in a patch of Argo, which is a text in YAML or JSON; nothing where it has none."""
    try:
        spec = yaml.load(patch, KubectlLoader) if isinstance(patch, str) else None  # noqa: S506 - a safe one
    except yaml.YAMLError:  # a template that is not filled in
        return {}
    return _first_resources(spec)


def _first_resources(spec: Any) -> Spec:
    """Return the resources of the first container of a pod."""
    containers = _object(spec).get("containers")
    first = containers[0] if isinstance(containers, list) and containers else None
    return _object(_object(first).get("resources"))


def _resources(part: Spec) -> Spec:
    """Return the resources that a part of an object states, as those of a container.

    The words of a DynamoGraphDeployment for GPUs are ``gpu`` and ``gpuType``, and its ``custom`` has others.
    """
    resources = _object(part.get("resources"))
    if not any(_object(resources.get(what)).keys() & set(_DYNAMO) for what in ("limits", "requests")):
        return resources
    known: dict[str, Spec] = {}
    for what in ("limits", "requests"):
        amounts = _object(resources.get(what))
        own = {name: amount for name, amount in amounts.items() if name not in _DYNAMO}
        gpus = {str(amounts.get("gpuType") or "nvidia.com/gpu"): amounts["gpu"]} if "gpu" in amounts else {}
        known[what] = {**own, **gpus, **_object(amounts.get("custom"))}
    return {**resources, **known}


def _merge_resources(resources: Any, others: Spec) -> Spec:
    """Return the resources with the amounts of others in place of theirs."""
    return {
        what: {**_object(_object(resources).get(what)), **_object(others.get(what))}
        for what in ("limits", "requests")
    }


def _object(part: Any) -> Spec:
    return part if isinstance(part, Mapping) else {}


def _spark(spec: Spec, namespace: str) -> Iterator[AskedPod]:
    """Yield driver and executors. Their memory is not stated: Spark adds its overhead to what the file
    says."""
    is_scheduled = isinstance(spec.get("template"), Mapping)  # a ScheduledSparkApplication
    application, path = (spec["template"], "spec.template") if is_scheduled else (spec, "spec")
    for role in ("driver", "executor"):
        part = _object(application.get(role))
        gpu, cores = _object(part.get("gpu")), "coreRequest" if part.get("coreRequest") else "cores"
        asked = {
            str(gpu.get("name") or ""): (gpu.get("quantity"), "gpu.quantity"),
            "cpu": (part.get(cores), cores),
        }
        settings, resource = _object(application.get("sparkConf")), f"spark.{role}.resource.gpu"
        if (amount := settings.get(f"{resource}.amount")) is not None:
            name = f"{settings.get(f'{resource}.vendor', 'nvidia.com')}/gpu"
            asked[name] = amount, f"sparkConf.{resource}.amount"
        requests = {name: amount for name, (amount, _) in asked.items() if name and amount is not None}
        # Its pod template may ask for what Spark has no word for.
        own = _first_resources(_object(part.get("template")).get("spec"))
        refused = [
            sentence for name, (amount, key) in asked.items() if name
            for sentence in refused_amount(name, amount, f"{path}.{role}.{key}")
        ]  # fmt: skip
        image = part.get("image") or application.get("image")
        resources = _merge_resources(own, {"requests": requests})
        containers = [{"name": role, "image": image, "resources": resources}]
        yield AskedPod(role, namespace, {"containers": containers}, refused=tuple(refused))


def _train_job(spec: Spec, namespace: str, documents: Sequence[ManifestDocument]) -> AskedPods:
    """Return the pods of its runtime, and in them what the trainer says instead."""
    reference, trainer = _object(spec.get("runtimeRef")), _object(spec.get("trainer"))
    kind, name = str(reference.get("kind") or "ClusterTrainingRuntime"), str(reference.get("name") or "")
    stated = {key: trainer[key] for key in ("image", "command", "args") if trainer.get(key)}
    if trainer.get("resourcesPerNode"):
        stated["resources"] = trainer["resourcesPerNode"]
    runtime = next(
        (document for document in documents if (document.kind, document.name) == (kind, name)), None
    )
    if runtime is not None:
        pods = []
        jobs = _object(_object(runtime.spec.get("template")).get("spec")).get("replicatedJobs")
        for job in map(_object, jobs if isinstance(jobs, list) else ()):
            template, role = _object(job.get("template")), str(job.get("name") or "")
            labels = _object(_object(template.get("metadata")).get("labels"))
            is_trainer = labels.get(_STEP, "") == "trainer" or role == _TRAINER
            for _, pod, *_ in _specs(template, role, "", _Around({})):
                refused = _refused(pod, f"{runtime}: {role}")
                if is_trainer:  # what it says goes into the container of its name, or the first
                    names = [_object(container).get("name") for container in pod["containers"]]
                    place = names.index(_TRAINER) if _TRAINER in names else 0
                    containers = [
                        {**_object(container), **stated} if at == place else container
                        for at, container in enumerate(pod["containers"])
                    ]
                    pod = {**pod, "containers": containers}
                    refused = (*_refused(trainer, "spec.trainer"), *refused)
                pods.append(AskedPod(role, namespace, pod, refused=refused))
        return AskedPods(pods, None if pods else f"{runtime.where}: {runtime} has no pod template")
    where = (
        f"its {kind} {name} is not in these files: kubectl get {kind.lower()} {name} -o yaml > runtime.yaml, "
        "and give that file too"
    )
    if "image" not in stated:
        return AskedPods((), f"no prediction: it names no image, and {where}")
    spec = {"containers": [{"name": _TRAINER, **stated}]}
    refused = _refused(trainer, "spec.trainer")
    return AskedPods([AskedPod(_TRAINER, namespace, spec, f"by itself: {where}", refused)])


def _made(part: Any, namespace: str, documents: Sequence[ManifestDocument]) -> Iterator[AskedPods]:
    """Yield the pods of the objects that templates of an Argo workflow make, by the names of these."""
    for inner in part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ():
        yield from _made(inner, namespace, documents)
    for thing in objects_to_make(part) if isinstance(part, Mapping) else ():
        document, name = ManifestDocument(thing, str(part.get("name"))), str(part.get("name") or "")
        if document.has_pods:
            asked = _pods_of(document, namespace, documents)
            yield replace(asked, pods=[replace(pod, role=pod.role or name) for pod in asked.pods])


def _references(part: Any) -> Iterator[tuple[str, Spec]]:
    """Yield what a spec refers to, with the name of the field: its own before those of its parts."""
    if isinstance(part, Mapping):
        yield from ((key, part[key]) for key in _REFERENCES if isinstance(part.get(key), Mapping))
    for inner in part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ():
        yield from _references(inner)


def _referred(
    document: ManifestDocument, namespace: str, documents: Sequence[ManifestDocument]
) -> Iterator[AskedPods]:
    """Yield the pods of the objects that it refers to, and of those that these refer to, each once; of those
    that are not in ``documents`` where what its pods run is said."""
    waiting, known, elsewhere = [document], set[tuple[str, str, str]](), list[str]()
    while waiting:
        for key, reference in _references(waiting.pop(0).spec):
            kind = str(reference.get("kind") or _REFERENCES[key])  # a Task, or a ClusterTask
            kind = f"Cluster{kind}" if reference.get("clusterScope") is True else kind
            name, template = _name_in(reference), str(reference.get("template") or "")
            who = kind.lower(), name  # Tekton takes a "task", too
            if (*who, template) in known:
                continue
            known.add((*who, template))
            other = next((other for other in documents if (other.kind.lower(), other.name) == who), None)
            if other is None:
                resolver = reference.get("resolver")
                unnamed = f"a {kind}" if resolver is None else f"a {kind} that the resolver {resolver} gets"
                elsewhere.append(f"{kind} {name}" if name else unnamed)
                continue
            pods = [
                AskedPod(role or name, namespace, pod, refused=refused, annotations=of_pod)
                for role, pod, refused, of_pod in _specs(other.spec, "", "spec", _Around({}))
            ]
            # The template of an Argo workflow may have steps, whose pods are of other templates.
            yield AskedPods([pod for pod in pods if pod.role == template] or pods)
            # What it makes may refer to itself.
            yield from _made(other.spec, namespace, [each for each in documents if each is not other])
            waiting.append(other)
    if elsewhere:
        stands = ", ".join(dict.fromkeys(elsewhere))
        yield AskedPods((), f"no prediction: its pods stand in {stands}: give that file too, or instead")


def _name_in(reference: Spec) -> str:
    """Return the name of what is referred to; empty for what a resolver of Tekton gets by no name."""
    name = reference.get("name")
    parameters = reference.get("params")
    for parameter in map(_object, parameters if isinstance(parameters, list) and name is None else ()):
        if parameter.get("name") == "name":
            name = parameter.get("value")
    return str(name or "")


def _why_none(document: ManifestDocument) -> str:
    """Tell why nothing is known of the pods of an object that refers to no other."""
    if document.runs_in is not None:
        return f"no prediction: it runs in the pods of {document.runs_in}, which are there already"
    if document.api_version.startswith("batch/"):  # the controller of Kubernetes' own Job adds none
        path = "spec.jobTemplate.spec" if document.kind == "CronJob" else "spec"
        return f"no prediction: it has no {path}.template.spec.containers"
    return "no prediction: what its pods run does not stand in the file: its controller adds it"
