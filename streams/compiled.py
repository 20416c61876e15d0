"""Compiles loops over one series to machine code by numba: the only module that imports it.

A ``kernel`` is part of other kernels; an ``entry`` is called from Python. An entry is compiled for the
signatures that it names, when its module is imported, and kept in ``__pycache__`` beside the module: the
second import takes milliseconds, and an image that was built with them never compiles. Without ``fastmath``
each operation is rounded by itself, in the order in which it is written.

numba makes machine code of each function that it compiles, and a wrapper for Python. Here only an entry has
both: a kernel is optimised where it is linked into one. This takes a third off the time to compile.
"""

import ctypes
import hashlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from streams.compile import COMPILING, PART_VARIABLE, compile_all


@contextmanager
def _absent(module: str) -> Iterator[None]:
    """Let who imports this module find that it is not there."""
    if module in sys.modules:
        yield
        return
    modules: dict[str, Any] = sys.modules
    modules[module] = None
    try:
        yield
    finally:
        del modules[module]


with _absent(
    "scipy.linalg.cython_blas"
):  # for products of matrices, which no loop has: a third of the import
    import numba.np.arraymath  # noqa: F401 - else it would be imported later, with the first entry
    from numba import config, njit
    from numba.core.caching import InTreeCacheLocator, UserWideCacheLocator
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler

F = TypeVar("F", bound=Callable[..., Any])


class _Entry:
    """Compiles code anew when what it is made of changes: other modules, too. numba looks at one file."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)  # type: ignore[call-arg]
        self._function = py_func

    def get_source_stamp(self) -> str:
        return _stamp(self._function)

    def get_disambiguator(self) -> str:
        return "entry"  # and not the line, which changes with what is written above it


class _Locator(_Entry, InTreeCacheLocator):
    """Finds compiled code beside its module, also where nothing can be written, as in an image."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """Return the locator; None, for the next one to be tried, if nothing is there and nothing can be
        written."""
        locator = super().from_function(py_func, py_file)  # type: ignore[no-untyped-call]
        if locator is None:
            there: Any = cls(py_func, py_file)
            pattern = f"*.{py_func.__qualname__}-{there.get_disambiguator()}.*.nbi"
            locator = there if any(Path(there.get_cache_path()).glob(pattern)) else None
        return locator


class _UserLocator(_Entry, UserWideCacheLocator):
    """Does the same in the user's cache folder."""


def _stamp(entry: Any) -> str:
    """Return what an entry is made of, in short: its code and constants, and those of the kernels that it
    calls. Their modules, too: compiled code imports the module of each kernel when it is loaded."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    waiting, seen = [entry], set()
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        code = function.__code__
        digest.update(function.__module__.encode())
        digest.update(code.co_code + repr((code.co_consts, code.co_names, function.__defaults__)).encode())
        for name in code.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, np.ndarray):
                digest.update(value.tobytes())
            elif isinstance(value, int | float | str | tuple | type):
                digest.update(repr(value).encode())
            elif hasattr(value, "py_func"):
                waiting.append(value.py_func)
    return digest.hexdigest()


_FOLDER = Path(__file__).parent
if (
    PART_VARIABLE not in os.environ
    and os.access(_FOLDER, os.W_OK)
    and not any(_FOLDER.rglob("__pycache__/*.nbi"))
):
    logging.getLogger("dutycycle").warning("%s: up to a minute", COMPILING)
    compile_all()

# Code for every machine of its architecture, so that what was compiled on one runs on another.
_settings: Any = config
_settings.CPU_NAME, _settings.CPU_FEATURES = "generic", ""
_settings.CACHE_LOCATOR_CLASSES = ",".join(
    f"{__name__}.{locator.__name__}" for locator in (_Locator, _UserLocator)
)


class _Part(JITCodeLibrary):
    """Holds what is linked into entries: it is never run by itself, so it does not become machine code."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Leave it to the entry, which optimises all of its parts together."""
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Do nothing, too."""

    def _finalize_final_module(self) -> None:
        """Keep the module for those that link it; the execution engine does not get it."""
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of a function that refuses a call from Python, by a TypeError."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return ctypes.cast(ctypes.pythonapi.PyObject_Call, ctypes.c_void_p).value or 0


class _EntryCompiler(Compiler):
    """Compiles an entry to machine code, and what it calls to parts of it."""

    library_class = JITCodeLibrary

    def __init__(self, typing_context: Any, target_context: Any, library: Any, *rest: Any) -> None:
        self._codegen = target_context.codegen()
        library_class: Any = self.library_class
        library = library_class(self._codegen, type(self).__name__)
        library.enable_object_caching()
        super().__init__(typing_context, target_context, library, *rest)  # type: ignore[no-untyped-call]

    def compile_extra(self, func: Any) -> Any:
        """Compile ``func``; what is compiled for it meanwhile, of numba's own functions too, is a part."""
        codegen = self._codegen
        usual, set_env = codegen._library_class, codegen.set_env

        def set_env_of_entry(name: str, environment: Any) -> None:
            if codegen._engine.is_symbol_defined(name):  # a part has no address to write it to
                set_env(name, environment)

        codegen._library_class, codegen.set_env = _Part, set_env_of_entry
        try:
            return super().compile_extra(func)  # type: ignore[no-untyped-call]
        finally:
            codegen._library_class, codegen.set_env = usual, set_env


class _KernelCompiler(_EntryCompiler):
    """Compiles a kernel to a part, also where none but Python asks for it, which is refused."""

    library_class = _Part


_OPTIONS: Any = {"error_model": "numpy", "no_cfunc_wrapper": True}


def kernel(function: F) -> F:
    """Make a function that kernels and entries call; Python calls its ``py_func``."""
    options: Any = {**_OPTIONS, "no_cpython_wrapper": True, "pipeline_class": _KernelCompiler}
    return cast("F", njit(**options)(function))


def entry(*signatures: str) -> Callable[[F], F]:
    """Make a function that Python calls, for arguments of one of the ``signatures``."""

    def compiled(function: F) -> F:
        return cast(
            "F", njit(list(signatures), cache=True, **_OPTIONS, pipeline_class=_EntryCompiler)(function)
        )

    return compiled
