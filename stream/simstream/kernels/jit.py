"""The decorators of all kernels: compiled when first called, cached on disk, nearly all without the GIL.

A `kernel` can be called from Python and from kernels, a `helper` only from kernels; a `sealed_kernel` has its
helpers to itself, and a `quick_kernel` keeps the GIL. Most of a first start is numba's work for each function and
each signature. So a function has one signature wherever its arguments have the same types. Only kernels get machine
code, and the wrapper through which Python calls them.

numba's cache checks only the source file of the function. If a callee in another file changed, a kernel would go on
with the old code. So the cache lies in a folder named by a digest over all kernels' sources, wherever it is.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from glob import escape
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryFile
from traceback import walk_tb
from typing import Any, Final

from numba import config, njit, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.options import DefaultOptions

from simstream.errors import Unavailable

UNUSED_S: Final = 30 * 86_400
"""Kernels of other sources are removed once nobody has read or written one of them for so many seconds."""
_HERE = Path(__file__).parent
_FOLDER: Final = re.compile("kernels-[0-9a-f]{16}")
_logger = logging.getLogger("simstream.kernels")


@cache
def sources_digest() -> str:
    """Return 16 hex digits over the source files of all kernels."""
    digest = blake2b(digest_size=8)
    for path in sorted(_HERE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


LEAN: Final[Mapping[str, Any]] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
"""numba's option to count no references. An array argument costs two atomic additions, and in a loop numba does not
always remove them. A numba without this option only makes kernels slower."""


if getattr(config, "DISABLE_JIT", False):
    raise Unavailable("kernels must be compiled, and NUMBA_DISABLE_JIT forbids it", "unset it")
_njit: Any = njit  # its types lack some of its options
_COMMON: Final = {"nogil": True, "no_cfunc_wrapper": True}  # nothing calls a kernel from C


def _compiled_once(dispatcher: Any) -> Any:
    """Let kernels call this function with a number that stands in the source by the same code as with any other. By
    itself numba compiles it for each number anew."""
    template = dispatcher.get_call_template
    dispatcher.get_call_template = lambda args, kws: template(tuple(map(types.unliteral, args)), kws)
    return dispatcher


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """Compile with `njit(nogil=True, cache=True)`, with the cache in the folder of these sources.

    The folder lies below NUMBA_CACHE_DIR if it is set, else beside the sources, else in the user's own cache: the
    first of these that can be written. If there is none, or if its disk fails, each process compiles the kernel
    again.
    """
    settings: Any = config  # numba makes it from environment variables at run time, so type checkers do not know it
    before = settings.CACHE_DIR
    folder = _cache_folder(before)
    if folder:
        settings.CACHE_DIR = folder
        try:
            dispatcher = _njit(cache=True, **{**_COMMON, **options})(function)
            dispatcher._cache = _ForgivingCache(dispatcher._cache, folder)
            return _compiled_once(dispatcher)
        except RuntimeError:  # the source is no file, or the folder can no longer be written
            pass
        finally:
            settings.CACHE_DIR = before
    return _compiled_once(_njit(**{**_COMMON, **options})(function))


class _ForgivingCache:
    """numba's cache of one kernel, whose errors cost only time. By itself numba lets them end the kernel's call."""

    said: Final[set[str]] = set()
    """What the log says already, for all kernels of this process."""

    def __init__(self, kept: Any, folder: str) -> None:
        self._kept = kept
        self._folder = folder

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the kernel's code, or None if it is not there or cannot be read."""
        try:
            return self._kept.load_overload(signature, context)
        except MemoryError:
            raise
        except Exception as error:  # half a file of pickle raises errors of many kinds
            if _is_of_handler(error):
                raise
            if not isinstance(error, OSError):
                self._remove()
            self._say(
                "compiled kernels in %s cannot be read (%s), so they are compiled again: "
                "if this comes at each start, remove the folder",
                error,
            )
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep the kernel's code if the disk takes it."""
        try:
            self._kept.save_overload(signature, compiled)
        except Exception as error:  # the kernel is compiled, so it can answer
            self._remove()
            if _is_of_handler(error):
                raise
            self._say(
                "compiled kernels cannot be kept in %s (%s), so each start compiles them again: "
                "make room there, or set NUMBA_CACHE_DIR to a folder that can be written",
                error,
            )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)

    def _remove(self) -> None:
        """Remove the kernel's files. numba writes the index first: it may name code of another signature now."""
        index = Path(self._kept._cache_file._index_path)
        with suppress(OSError):
            index.unlink(missing_ok=True)
            for code in index.parent.glob(f"{escape(index.stem)}.*.nbc"):
                code.unlink(missing_ok=True)

    def _say(self, line: str, error: Exception) -> None:
        if line not in self.said:
            self.said.add(line)
            _logger.warning(line, self._folder, f"{type(error).__name__}: {error}")


def _is_of_handler(error: Exception) -> bool:
    """Whether a handler of a signal raised it. Such a time limit of the program says nothing of the cache."""
    handlers = [getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()]
    return any(frame.f_code in handlers for frame, _ in walk_tb(error.__traceback__))


@cache
def _cache_folder(chosen: str) -> str:
    """Return the folder of these sources' kernels, made if it is missing; empty if none can be written.

    numba must not choose: its own folder for a user knows nothing of the sources of callees.
    """
    user = Path(os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "simstream")
    parents = [_HERE / "__pycache__", *([user] if user.is_absolute() else [])]
    for parent in [Path(chosen), *parents] if chosen else parents:
        folder = parent.absolute() / f"kernels-{sources_digest()}"
        is_new = not os.path.lexists(folder)
        if _is_writable(folder):
            if is_new:
                _remove_unused(folder)
            return str(folder)
    _logger.warning(
        "no folder for compiled kernels can be written, so each start compiles them again: "
        "set NUMBA_CACHE_DIR to a folder that can be written"
    )
    return ""


def _is_writable(folder: Path) -> bool:
    """Try it as numba does: permissions do not tell of a disk that is mounted for reading."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _remove_unused(new: Path) -> None:
    """Remove the folders beside `new` in which nobody has used a kernel for UNUSED_S seconds. Raises nothing."""
    with suppress(OSError):
        oldest = new.stat().st_mtime - UNUSED_S
        for folder in new.parent.iterdir():
            if _FOLDER.fullmatch(folder.name) and not folder.is_symlink() and _last_use(folder) < oldest:
                shutil.rmtree(folder, ignore_errors=True)


def _last_use(folder: Path) -> float:
    """Return when the folder was made, or a file in it was last read or written, in s since 1970."""
    facts = [path.stat() for path in folder.rglob("*") if path.is_file()]
    return max([folder.stat().st_mtime, *(max(fact.st_atime, fact.st_mtime) for fact in facts)])


def lean_kernel(function: Callable[..., Any]) -> Any:
    """Compile as `kernel` does, without reference counts: for functions that make and keep no array."""
    return kernel(function, **LEAN)


def quick_kernel(function: Callable[..., Any]) -> Any:
    """Compile as `lean_kernel` does, but keep the GIL.

    For calls of about 20 us a page, and at most 20 ms: a thread may wait longer to get the GIL back.
    """
    return kernel(function, nogil=False, **LEAN)


class _SealedCode(JITCodeLibrary):
    """The code of a kernel, in which its helpers can be called by nothing else."""

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if function.linkage.name == "linkonce_odr" and not function.is_declaration:
                # Not "internal": LLVM's loader has one table of names, so another kernel would call this version.
                function.linkage = "private"
        super()._optimize_final_module()


class _WithoutEnvironments:
    """Stands for the code generator where numba gives a helper its environment, which nothing reads."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def set_env(self, name: str, environment: object) -> None:
        """Do nothing: the helper has no place in memory for it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)


class _HelperCode(JITCodeLibrary):
    """The code of a helper, for the kernels that inline or call it. No machine code is made of it alone."""

    @property
    def codegen(self) -> Any:
        return _WithoutEnvironments(self._codegen)

    def _optimize_final_module(self) -> None:
        """Do nothing: kernels inline it, and this was a part of a first start."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _LibraryCompiler(Compiler):
    """Compiles a function as numba does, into a library of the class `code`."""

    code: type[JITCodeLibrary]

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        library = self.code(self.state.targetctx.codegen(), func.__qualname__)
        library.enable_object_caching()
        self.state.library = library
        return super().compile_extra(func)


class _SealingCompiler(_LibraryCompiler):
    code = _SealedCode


class _HelperCompiler(_LibraryCompiler):
    code = _HelperCode


def sealed_kernel(function: Callable[..., Any]) -> Any:
    """Compile as `lean_kernel` does, and let LLVM change what its helpers take and return.

    numba keeps each helper callable from outside, and hands each array over as seven numbers or more. A helper that
    takes tuples of arrays reads more than a hundred from memory, whatever it does with them: most of the time of a
    kernel that calls one for every few bytes. Here LLVM drops the arguments that a helper does not use. Cost: where
    helpers are large and called once, LLVM may choose worse registers; so it is for kernels that gain by it.
    """
    return kernel(function, pipeline_class=_SealingCompiler, **LEAN)


def helper(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function that only kernels call, as a part of them. A call from Python raises TypeError.

    It may not print, use Python objects, or call itself by way of another helper: numba gives it no environment.
    """
    dispatcher = _njit(no_cpython_wrapper=True, pipeline_class=_HelperCompiler, **_COMMON, **options)(function)

    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise TypeError(f"{function.__name__} is a helper: only kernels can call it")

    dispatcher._insert = lambda *_args, **_kwargs: None  # else numba would jump to the wrapper that is not there
    dispatcher._compile_for_args = refuse
    return _compiled_once(dispatcher)


def lean_helper(function: Callable[..., Any]) -> Any:
    """Compile as `helper` does, without reference counts."""
    return helper(function, **LEAN)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile as `lean_helper` does; LLVM puts the function's code in place of each call, however large it is."""
    return helper(function, forceinline=True, **LEAN)
