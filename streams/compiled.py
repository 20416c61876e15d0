"""Compiles loops over one series to machine code by numba: the only module that imports it.

A ``kernel`` is part of other kernels; an ``entry`` is called from Python. An entry is compiled for the
signatures that it names, when its module is imported, and kept in ``__pycache__`` beside the module: the
second import takes milliseconds, and an image that was built with them never compiles. Without ``fastmath``
each operation is rounded by itself, in the order in which it is written.

What only compiling needs is not imported, parsed or made where all is compiled already.

numba makes machine code of each function that it compiles, and a wrapper for Python. Here only an entry has
both: a kernel is optimised where it is linked into one. This takes a third off the time to compile.
"""

import ctypes
import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numba import config, njit, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, InTreeCacheLocator, UserWideCacheLocator
from numba.core.codegen import JITCodeLibrary, ll  # type: ignore[attr-defined]
from numba.core.compiler import Compiler
from numba.core.runtime import _nrt_python  # type: ignore[attr-defined]
from numba.core.runtime.context import NRTContext
from numba.core.typing.context import BaseContext

from streams.compile import COMPILING, PART_VARIABLE, compile_all

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


_OWN_CODE = Path(__file__).read_bytes()


def _stamp(entry: Any) -> str:
    """Return what an entry is made of, in short: its code and constants, and those of the kernels that it
    calls. Their modules, too: what numba keeps of a kernel names its module."""
    digest = hashlib.sha256(_OWN_CODE)
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


for _name, _address in _nrt_python.c_helpers.items():  # compiled code allocates by them
    ll.add_symbol(_name if _name.startswith("_") else f"NRT_{_name}", _address)


@contextmanager
def _replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Let something of numba be another meanwhile. Not longer: numba may have to compile functions that are
    not ours."""
    usual = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, usual)


class _Loaded(JITCodeLibrary):
    """Holds an entry that was compiled before; its bitcode, which numba would parse, is for what links it."""

    _bitcode: bytes

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> Any:
        name, _, (machine_code, bitcode) = state
        library: Any = cls(codegen, name)
        library._bitcode = bitcode
        library.enable_object_caching()
        library._set_compiled_object(machine_code)
        library._finalize_final_module()
        return library

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of its wrapper for Python; nothing else is asked for."""
        address: int = self._codegen._engine.get_function_address(name)
        return address

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module = ll.parse_bitcode(self._bitcode)
        return self._shared_module


class _KeptEntry(CompileResultCacheImpl):
    """Decides how an entry is kept on disk."""

    def reduce(self, data: Any) -> Any:
        """Leave out what no call looks at: the types of its variables, as text, and of each function within
        its module, which is imported where numba keeps it."""
        *kept, _types, reload, environments = super().reduce(data)  # type: ignore[no-untyped-call]
        return (*kept, "", reload, tuple(environment for environment in environments if environment.consts))

    def rebuild(self, target_context: Any, reduced_data: Any) -> Any:
        """Load it."""
        with _replaced(target_context.codegen(), "_library_class", _Loaded):
            return super().rebuild(target_context, reduced_data)  # type: ignore[no-untyped-call]


class _Cache(FunctionCache):
    """Keeps the entries of an installation."""

    _impl_class = _KeptEntry

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load without importing all that numba can compile: compiling asks for it itself."""
        return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]


class _Part(JITCodeLibrary):
    """Holds what is linked into entries: it is never run by itself, so it does not become machine code."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Leave it to the entry, which optimises all of its parts together."""
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Let it be linked, without the parts that it calls: an entry links each of its parts once."""
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == ll.Linkage.external:
                function.linkage = "linkonce_odr"
        self._shared_module = self._final_module
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of a function that refuses a call from Python, by a TypeError."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return ctypes.cast(ctypes.pythonapi.PyObject_Call, ctypes.c_void_p).value or 0


class _EntryLibrary(JITCodeLibrary):
    """Holds an entry with all of its parts, which are optimised together."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Optimise once. numba begins with a cheaper round, with which our loops run no faster."""
        passes, builder = self._codegen._module_pass_manager()  # type: ignore[no-untyped-call]
        passes.run(self._final_module, builder)

    def finalize(self) -> None:
        """Link what its parts call, too, callers first: LLVM takes only what something calls already."""
        parts: dict[Any, None] = {}

        def add_callees(library: Any) -> None:
            for callee in library._linking_libraries:
                if callee not in parts:
                    add_callees(callee)
                    parts[callee] = None

        add_callees(self)
        self._linking_libraries = list(reversed(parts))
        super().finalize()  # type: ignore[no-untyped-call]


def _counted_parts(runtime: Any, builder: Any, type_: Any, value: Any) -> list[Any]:
    """Return the type and the reference counter of each part of a value that has one, as an array's memory.
    numba would write code that reads all parts of the value: a sixth of all code."""
    models = runtime._context.data_model_manager
    model = models[type_]
    counted = [(type_, model.get_nrt_meminfo(builder, value))] if model.has_nrt_meminfo() else []
    for part_type, read in model.traverse(builder):
        if models[part_type].contains_nrt_meminfo():
            counted += _counted_parts(runtime, builder, part_type, read(value))
    return counted


_signatures: dict[Any, Any] = {}
"""What numba found out already: by function and types of arguments, what it takes and returns."""


def _resolve_once(context: Any, function: Any, arguments: Any, keywords: Any) -> Any:
    """Return the signature of a call, None if there is none. numba would try each form of an operator at each
    of its uses, and compile a kernel anew for each constant that it is given."""
    resolve: Any = BaseContext.resolve_function_type
    unliteral: Any = types.unliteral
    if keywords or isinstance(function, str):  # as "static_getitem", whose arguments are no types
        return resolve(context, function, arguments, keywords)
    if isinstance(function, types.Dispatcher):
        arguments = map(unliteral, arguments)
    key = function, tuple(arguments)
    signature = _signatures.get(key)
    if signature is None:
        signature = _signatures[key] = resolve(context, *key, keywords)
    return signature


_SKIPPED_PASSES = {
    "with_lifting", "inline_closure_likes", "rewrite_semantic_constants", "dead_branch_prune",
    "make_function_op_code_to_jit_function", "inline_inlinables", "inline_overloads", "find_literally",
    "literal_unroll", "LiteralPropagation", "reconstruct_ssa", "strip_phis",
}  # fmt: skip
"""Passes over a function that look for what none of ours has, as closures. The last two let a variable change
its type: without them one that is an integer here and a float there is a float throughout."""


class _EntryCompiler(Compiler):
    """Compiles an entry to machine code, and what it calls to parts of it."""

    library_class: type = _EntryLibrary

    def __init__(self, typing_context: Any, target_context: Any, library: Any, *rest: Any) -> None:
        self._codegen = target_context.codegen()
        library_class: Any = self.library_class
        library = library_class(self._codegen, type(self).__name__)
        library.enable_object_caching()
        super().__init__(typing_context, target_context, library, *rest)  # type: ignore[no-untyped-call]

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes over the code of a function but for ``_SKIPPED_PASSES``."""
        pipelines: list[Any] = super().define_pipelines()  # type: ignore[no-untyped-call]
        for pipeline in pipelines:
            pipeline.passes = [
                (pass_class, title)
                for pass_class, title in pipeline.passes
                if pass_class.name() not in _SKIPPED_PASSES
            ]
        return pipelines

    def compile_extra(self, func: Any) -> Any:
        """Compile ``func``; what is compiled for it meanwhile, of numba's own functions too, is a part."""
        codegen = self._codegen
        set_env = codegen.set_env

        def set_env_of_entry(name: str, environment: Any) -> None:
            if codegen._engine.is_symbol_defined(name):  # a part has no address to write it to
                set_env(name, environment)

        context = self.state.typingctx
        with (
            _replaced(codegen, "set_env", set_env_of_entry),
            _replaced(codegen, "_library_class", _Part),
            _replaced(NRTContext, "get_meminfos", _counted_parts),
            _replaced(context, "resolve_function_type", partial(_resolve_once, context)),
        ):
            return super().compile_extra(func)  # type: ignore[no-untyped-call]


class _KernelCompiler(_EntryCompiler):
    """Compiles a kernel to a part, also where none but Python asks for it, which is refused."""

    library_class = _Part


_OPTIONS: Any = {"error_model": "numpy", "no_cfunc_wrapper": True}


class _Kernel:
    """Shows numba a kernel when an entry is compiled that calls it, and not before."""

    def __init__(self, py_func: Callable[..., Any]) -> None:
        self.py_func = py_func

    @cached_property
    def _dispatcher(self) -> Any:
        options: Any = {**_OPTIONS, "no_cpython_wrapper": True, "pipeline_class": _KernelCompiler}
        return njit(**options)(self.py_func)

    @property
    def _numba_type_(self) -> Any:
        return self._dispatcher._numba_type_


def kernel(function: F) -> F:
    """Make a function that kernels and entries call; Python calls its ``py_func``, else a ``TypeError``."""
    return function if _settings.DISABLE_JIT else cast("F", _Kernel(function))


def entry(*signatures: str) -> Callable[[F], F]:
    """Make a function that Python calls, for arguments of one of the ``signatures``."""

    def compiled(function: F) -> F:
        if _settings.DISABLE_JIT:
            return function
        dispatcher: Any = njit(**_OPTIONS, pipeline_class=_EntryCompiler)(function)
        dispatcher._cache = _Cache(function)  # type: ignore[no-untyped-call]
        for signature in signatures:
            dispatcher.compile(signature)
        dispatcher.disable_compile()
        return cast("F", dispatcher)

    return compiled
