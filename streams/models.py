"""Makes of the specification of a user's models what the operators run. Imports River for them only.

A specification is an expression of River's public classes, such as ``preprocessing.StandardScaler() |
linear_model.LinearRegression()``, which is read and not run; or ``module:factory``, a function without
arguments that returns an estimator; or the name of an entry point of the group ``dutycycle.models``.
"""

import ast
import inspect
import re
import sys
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points, version
from pkgutil import iter_modules
from typing import Any

from dutycycle.contract.catalogue import METRICS
from dutycycle.contract.errors import SettingError, did_you_mean
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.models import ModelSetting
from streams.construction import TooLargeError, check_construction
from streams.operators.models.bank import Model, ModelBank, ModelsConfig
from streams.operators.models.codec import StateCodec
from streams.operators.models.probe import probe
from streams.operators.models.roles import Build, role_of

GROUP = "dutycycle.models"
_FACTORY = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)")
_ENTRY = re.compile(r"[A-Za-z_][\w-]*")
_LONGEST = 4000
_NO_MODELS = frozenset({"api", "checks", "compat", "conf", "datasets", "evaluate", "stream"})
"""Modules of River that hold no models; some read files."""


class _NoSpecError(ValueError):
    """Says why a specification is none."""


def models_of(settings: Settings) -> ModelsConfig:
    """Return every model of the settings, each tried on made-up ticks. Raises ``SettingError`` naming the
    model."""
    models = tuple(_model(model, settings) for model in settings.models)
    for model in models:
        probe(model, settings.models_lags)
    return ModelsConfig(
        models=models,
        horizons_s=settings.trends_horizons,
        lags=settings.models_lags,
        state_bytes=settings.models_bytes,
    )


def bank_of(config: ModelsConfig, node: str, source: str) -> ModelBank:
    """Make what runs the models on a node and source of samples."""
    return ModelBank(node, source, config)


def _model(setting: ModelSetting, settings: Settings) -> Model:
    for metric in setting.metrics:
        if metric not in METRICS:
            meant = did_you_mean(metric, METRICS)
            raise SettingError(f"model {setting.name}: there is no metric {metric}{meant}")
    try:
        build, packages = _builder(setting.spec, settings.models_seed)
        check_construction(build)
        role = role_of(build())
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "river":
            raise
        raise SettingError(f"model {setting.name}: {setting.spec:.200}: {error}") from error
    except Exception as error:
        why = (
            str(error)
            if isinstance(error, _NoSpecError | TooLargeError)
            else f"{type(error).__name__}: {error}"
        )
        raise SettingError(f"model {setting.name}: {setting.spec:.200}: {why}") from error
    text = f"{setting.spec} seed={settings.models_seed} river={version('river')}"
    return Model(
        name=setting.name, text=text, kind=setting.kind, metrics=setting.metrics, build=build, role=role,
        codec=StateCodec(packages),
    )  # fmt: skip


def _builder(spec: str, seed: int) -> tuple[Build, tuple[str, ...]]:
    """Return what makes an estimator, and the packages whose classes its state may hold beside River's."""
    if (match := _FACTORY.fullmatch(spec)) is not None:
        if "" not in sys.path:
            sys.path.append("")  # a module beside the user's trace, after all that is installed
        factory = getattr(import_module(match["module"]), match["name"], None)
    elif _ENTRY.fullmatch(spec):
        entry_points_by_name = {entry_point.name: entry_point for entry_point in entry_points(group=GROUP)}
        if spec not in entry_points_by_name:
            names = ", ".join(sorted(entry_points_by_name))
            known = f"one of {names}" if names else "there is none"
            raise _NoSpecError(
                f"no entry point of {GROUP} ({known}), and no expression such as drift.ADWIN()"
            )
        factory = entry_points_by_name[spec].load()
    else:
        if len(spec) > _LONGEST:
            raise _NoSpecError(f"is longer than {_LONGEST} characters")
        try:
            tree = ast.parse(spec, mode="eval").body
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise _NoSpecError(f"is no expression: {getattr(error, 'msg', error)}") from error
        for call in ast.walk(tree):
            if isinstance(call, ast.Call):
                _class(_dotted(call.func))  # imported here: that takes seconds, and counts for no model
        return partial(_built, tree, seed), ()
    if not callable(factory):
        raise _NoSpecError("there is no such function")
    return factory, (factory.__module__.partition(".")[0],)


def _built(node: ast.expr, seed: int) -> Any:
    """Return the value of an expression of River's classes, literals and ``|``; nothing else is looked at."""
    again = partial(_built, seed=seed)
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=parts):
            return [again(part) for part in parts]
        case ast.Tuple(elts=parts):
            return tuple(again(part) for part in parts)
        case ast.Dict(keys=keys, values=values) if all(key is not None for key in keys):
            return {
                again(key): again(value) for key, value in zip(keys, values, strict=True) if key is not None
            }
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return again(left) | again(right)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return again(left) + again(right)
        case ast.Call(func=name, args=args, keywords=keywords) if all(keyword.arg for keyword in keywords):
            made = _class(_dotted(name))
            named = {str(keyword.arg): again(keyword.value) for keyword in keywords}
            if "seed" in inspect.signature(made).parameters:
                named = {"seed": seed} | named  # without it, it would be another model each time
            return made(*[again(argument) for argument in args], **named)
    raise _NoSpecError(
        f"{ast.unparse(node):.80}: expected a River class with its arguments, a number, a text, a list or |"
    )


def _dotted(node: ast.expr) -> list[str]:
    match node:
        case ast.Name(id=name):
            return [name]
        case ast.Attribute(value=value, attr=name):
            return [*_dotted(value), name]
    raise _NoSpecError(f"{ast.unparse(node):.80}: is no River class")


def _class(path: list[str]) -> Any:
    """Return the public class at ``[river.]module[.module].Class``."""
    module_names = path[1:-1] if path[0] == "river" else path[:-1]
    river = import_module("river")
    public = [
        module_info.name
        for module_info in iter_modules(river.__path__)
        if not module_info.name.startswith("_")
    ]
    modules = [name for name in public if name not in _NO_MODELS]
    if not module_names or module_names[0] not in modules:
        wanted = module_names[0] if module_names else path[-1]
        raise _NoSpecError(f"River has no module {wanted} with models{did_you_mean(wanted, modules)}")
    module: Any = import_module(f"river.{module_names[0]}")
    for name in module_names[1:]:
        module = getattr(module, name, None) if name in getattr(module, "__all__", ()) else None
    classes = [
        name for name in getattr(module, "__all__", ()) if inspect.isclass(getattr(module, name, None))
    ]
    if path[-1] not in classes:
        raise _NoSpecError(f"there is no class {'.'.join(path)}{did_you_mean(path[-1], classes)}")
    return getattr(module, path[-1])
