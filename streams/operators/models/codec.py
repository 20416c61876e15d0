"""Turns the state of a River model into plain data, and back, without pickle.

A changelog comes over the network, and pickle would run what stands there. Here an object is its class, by
name, and its attributes, as its own ``__reduce_ex__`` gives them. Only classes of River, a few of the
standard library and those of a factory's own package are made, and no function is called but their
constructors. What is none of these is refused by its name. Objects stand in one flat list and point to one
another by place: so shared objects stay shared, and deep trees need no recursion.
"""

import copyreg
import functools
import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import Any, Literal

import numpy as np

_RIVER = frozenset({
    "_river_rust", "anomaly", "base", "cluster", "compose", "covariance", "drift", "dummy", "ensemble",
    "facto", "feature_extraction", "feature_selection", "forest", "linear_model", "metrics", "misc",
    "model_selection", "multioutput", "neighbors", "optim", "preprocessing", "proba", "rules", "sketch",
    "stats", "time_series", "tree", "utils",
})  # fmt: skip
"""Its modules that hold no data sets, readers of files or network."""
_OTHERS = frozenset({
    "builtins:bool", "builtins:dict", "builtins:float", "builtins:frozenset", "builtins:int", "builtins:list",
    "builtins:set", "builtins:str", "builtins:tuple", "collections:Counter", "collections:OrderedDict",
    "collections:defaultdict", "collections:deque", "random:Random",
})  # fmt: skip
_ATOMS = (str, bytes, float, bool, type(None))
# Larger ones, such as the state of a random generator, are written as text: JSON's writer takes 64 bits.
_INTEGER = 1 << 62
_DTYPES = frozenset("biuf")
Rows = list[list[Any]]


class UnsupportedStateError(ValueError):
    """Says why a state cannot be stored or restored; the message names what it holds."""


class StateCodec:
    """Encodes and decodes states. ``packages``: top-level packages whose classes are trusted beside River's:
    those of the factories."""

    def __init__(self, packages: Iterable[str] = ()) -> None:
        self._packages = frozenset(packages)

    def encode(self, model: Any) -> Rows:
        """Return plain data. Raises ``UnsupportedStateError``."""
        return _Encoder(self).encode(model)

    def decode(self, rows: Rows) -> Any:
        """Return the object that ``encode`` was given. Raises ``UnsupportedStateError`` for anything else."""
        try:
            return _Decoder(self, rows).decode()
        except UnsupportedStateError:
            raise
        except Exception as error:
            raise UnsupportedStateError(
                f"a state that cannot be read: {type(error).__name__}: {error}"
            ) from error

    def name_of(self, thing: Any) -> str:
        """Return the name of a class or function by which ``named`` finds it."""
        module = getattr(thing, "__module__", None) or "builtins"
        qualified = getattr(thing, "__qualname__", "")
        name = f"{module}:{qualified}"
        if not self._is_known(name) or self.named(name) is not thing:
            raise UnsupportedStateError(f"holds {module}.{qualified}, which is no part of River")
        return name

    def named(self, name: str) -> Any:
        """Return the class or function of this name."""
        if not self._is_known(name):
            raise UnsupportedStateError(f"holds {name:.200}, which is no part of River")
        return _found(name)

    def _is_known(self, name: str) -> bool:
        module, _, qualified = name.partition(":")
        top, _, rest = module.partition(".")
        if not qualified or "<" in qualified or (qualified.startswith("_") and top != "river"):
            return False
        if top == "river":
            return rest.partition(".")[0] in _RIVER
        return name in _OTHERS or top in self._packages


@cache
def _found(name: str) -> Any:
    module, _, qualified = name.partition(":")
    attribute: Any = sys.modules.get(module) or _module(module)
    for part in qualified.split("."):
        attribute = (
            attribute.__dict__.get(part) if isinstance(attribute, type) else getattr(attribute, part, None)
        )
        attribute = attribute.__func__ if isinstance(attribute, staticmethod) else attribute
        if attribute is None:
            raise UnsupportedStateError(f"there is no {name:.200} here")
    if not callable(attribute) or getattr(attribute, "__module__", None) not in (module, None):
        raise UnsupportedStateError(f"{name:.200} is no class or function of that module")
    return attribute


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError:  # a compiled module's parts are no modules of their own
        parent, _, last = name.rpartition(".")
        if not parent:
            raise
        return getattr(_module(parent), last)


class _Encoder:
    """Writes every object that is met once."""

    def __init__(self, codec: StateCodec) -> None:
        self._codec = codec
        self._rows: Rows = []
        self._places: dict[int, int] = {}
        self._shapes: dict[tuple[Any, ...], int] = {}
        self._kept: list[Any] = []
        """What was met stays alive, or its id would be given to another object."""
        self._waiting: list[tuple[int, Any]] = []

    def encode(self, root: Any) -> Rows:
        self._ref(root)
        while self._waiting:
            place, thing = self._waiting.pop()
            self._rows[place] = self._row(thing)
        return self._rows

    def _ref(self, thing: Any) -> Any:
        """Return an atom itself; of anything else its place, in a list."""
        kind = type(thing)
        if kind in _ATOMS or (kind is int and -_INTEGER < thing < _INTEGER):
            return thing
        place = self._places.get(id(thing))
        if place is None:
            place = self._places[id(thing)] = len(self._rows)
            self._rows.append([])
            self._kept.append(thing)
            self._waiting.append((place, thing))
        return [place]

    def _refs(self, many: Iterable[Any]) -> list[Any]:
        return [self._ref(thing) for thing in many]

    def _row(self, thing: Any) -> list[Any]:
        kind = type(thing)
        if kind is int:
            return ["int", str(thing)]
        if kind is list or kind is tuple:
            return [kind.__name__, *self._refs(thing)]
        if kind is set or kind is frozenset:
            return [kind.__name__, *self._refs(sorted(thing, key=repr))]
        if kind is dict:
            return ["dict", *self._refs(part for item in thing.items() for part in item)]
        if isinstance(thing, np.ndarray | np.generic):
            array = np.asarray(thing)
            if array.dtype.kind not in _DTYPES:
                raise UnsupportedStateError(f"holds an array of {array.dtype}")
            shape = None if isinstance(thing, np.generic) else list(array.shape)
            # How it lies in memory decides in which order a matrix product adds.
            order: Literal["F", "C"] = (
                "C" if array.flags.c_contiguous or not array.flags.f_contiguous else "F"
            )
            return ["array", array.dtype.str, shape, order, array.tobytes(order)]
        if kind is functools.partial:
            return ["partial", self._ref(thing.func), self._ref(thing.args), self._ref(thing.keywords)]
        if isinstance(thing, type) or kind.__name__ in ("function", "builtin_function_or_method"):
            return ["name", self._codec.name_of(thing)]
        if kind.__name__ == "method":
            return ["method", self._ref(thing.__self__), thing.__name__]
        return self._object(thing)

    def _object(self, thing: Any) -> list[Any]:
        name = self._codec.name_of(type(thing))
        reduced = thing.__reduce_ex__(2)
        if isinstance(reduced, str):
            raise UnsupportedStateError(f"holds {name}, which is a constant")
        make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        if make is copyreg.__newobj__ and arguments[0] is type(thing):  # type: ignore[attr-defined]  # undocumented
            how, rest = "new", arguments[1:]
        elif make is type(thing):
            how, rest = "call", arguments
        else:
            raise UnsupportedStateError(
                f"holds {name}, which is made by {getattr(make, '__qualname__', make)}"
            )
        if how == "new" and not rest and type(state) is dict and items is None and pairs is None:
            # Many objects share a row: their class, and the names of their attributes.
            shape = (name, *state)
            if shape not in self._shapes:
                if not all(type(attribute) is str for attribute in state):
                    raise UnsupportedStateError(f"holds {name}, whose attributes have no names")
                self._shapes[shape] = len(self._rows)
                self._rows.append(["shape", *shape])
            return ["like", [self._shapes[shape]], *self._refs(state.values())]
        listed = None if items is None else list(items)
        mapped = None if pairs is None else [part for pair in pairs for part in pair]
        return ["object", how, name, *self._refs((tuple(rest), state, listed, mapped))]


class _Decoder:
    """Makes all objects empty first, then fills them: so they may point to one another."""

    def __init__(self, codec: StateCodec, rows: Rows) -> None:
        self._codec = codec
        self._rows = rows
        self._made: dict[int, Any] = {}
        self._filled: set[int] = set()

    def decode(self) -> Any:
        for place in range(len(self._rows)):
            self._make(place)
        for place, row in enumerate(self._rows):
            if row[0] in ("list", "dict", "set"):
                self._fill(place)
        # An object that is held by another comes after it: the last ones are filled first.
        for place in range(len(self._rows) - 1, -1, -1):
            self._fill(place)
        return self._made[0]

    def _value(self, ref: Any) -> Any:
        return self._make(ref[0]) if type(ref) is list else ref

    def _values(self, refs: Iterable[Any]) -> list[Any]:
        return [self._value(ref) for ref in refs]

    def _make(self, place: int) -> Any:
        if place not in self._made:
            kind, *parts = self._rows[place]
            self._made[place] = _MAKERS[kind](self, parts)
        return self._made[place]

    def _whole(self, ref: Any) -> Any:
        """Return a value with all that it holds: what a constructor gets."""
        value = self._value(ref)
        if type(ref) is list:
            kind, *parts = self._rows[ref[0]]
            if kind in ("list", "tuple", "dict", "set", "frozenset"):
                for part in parts:
                    self._whole(part)
            self._fill(ref[0])
        return value

    def _object(self, parts: list[Any]) -> Any:
        how, name, arguments, *_ = parts
        known = self._class(name)
        given = self._whole(arguments)
        return known.__new__(known, *given) if how == "new" else known(*given)

    def _like(self, parts: list[Any]) -> Any:
        known = self._class(self._rows[parts[0][0]][1])
        return known.__new__(known)

    def _class(self, name: str) -> Any:
        known = self._codec.named(name)
        if not isinstance(known, type):
            raise UnsupportedStateError(f"{name:.200} is no class")
        return known

    def _method(self, parts: list[Any]) -> Any:
        owner, name = self._value(parts[0]), parts[1]
        if not type(owner).__module__.startswith("river.") or not callable(getattr(type(owner), name, None)):
            raise UnsupportedStateError(f"{name:.200} is no method")
        return getattr(owner, name)

    def _fill(self, place: int) -> None:
        if place in self._filled:
            return
        self._filled.add(place)
        kind, *parts = self._rows[place]
        thing = self._made[place]
        if kind == "list":
            thing.extend(self._values(parts))
        elif kind == "set":
            thing.update(self._values(parts))
        elif kind == "dict":
            values = self._values(parts)
            thing.update(zip(values[::2], values[1::2], strict=True))
        elif kind == "like":
            names = self._rows[parts[0][0]][2:]
            _set_state(thing, dict(zip(names, self._values(parts[1:]), strict=True)))
        elif kind == "object":
            state, listed, mapped = map(self._whole, parts[3:])
            if state is not None:
                _set_state(thing, state)
            if listed is not None:
                thing.extend(listed)
            for name, value in zip((mapped or [])[::2], (mapped or [])[1::2], strict=True):
                thing[name] = value


def _set_state(thing: Any, state: Any) -> None:
    """Set a state as ``copyreg`` has it: a dict, or a dict and the slots."""
    if hasattr(thing, "__setstate__"):
        thing.__setstate__(state)
        return
    attributes, slots = state if type(state) is tuple else (state, None)
    if attributes:
        thing.__dict__.update(attributes)
    for name, value in (slots or {}).items():
        object.__setattr__(thing, name, value)


def _made_array(_: _Decoder, parts: list[Any]) -> Any:
    kind, shape, order, raw = parts
    if np.dtype(kind).kind not in _DTYPES:
        raise UnsupportedStateError(f"an array of {kind:.20}")
    array = np.frombuffer(raw, kind).copy()
    return array[0] if shape is None else array.reshape(shape, order=order)


_MAKERS: dict[str, Callable[[_Decoder, list[Any]], Any]] = {
    "int": lambda _, parts: int(parts[0]),
    "list": lambda _, parts: [],
    "dict": lambda _, parts: {},
    "set": lambda _, parts: set(),
    "tuple": lambda made, parts: tuple(made._values(parts)),
    "frozenset": lambda made, parts: frozenset(made._values(parts)),
    "array": _made_array,
    "shape": lambda _, parts: None,
    "name": lambda made, parts: made._codec.named(parts[0]),
    "partial": lambda made, parts: functools.partial(
        made._value(parts[0]), *made._whole(parts[1]), **made._whole(parts[2])
    ),
    "method": _Decoder._method,
    "object": _Decoder._object,
    "like": _Decoder._like,
}
