"""Run a job's source as `__main__` in this very process, and end as `python` would.

`sys.exit`, `os._exit`, tracebacks on stderr with exit code 1, threads joined, exit handlers run. Only
the teardown of modules is left out: it costs tens of milliseconds after a large preload.
"""

import atexit
import builtins
import linecache
import os
import sys
import traceback
import types
from collections.abc import Callable
from typing import NoReturn

FILE_NAME = "<job>"


def run(source: str, on_memory_error: Callable[[], None]) -> NoReturn:
    """Run `source` to its end and leave the process."""
    open_streams()
    new_main()
    run_prepared(source, on_memory_error)


def run_prepared(source: str, on_memory_error: Callable[[], None]) -> NoReturn:
    """Run `source` likewise, where the streams have been opened and the module made before."""
    code = _run_main(source, on_memory_error)
    code = _shut_down(code)
    os._exit(code)


def open_streams() -> None:
    """Open `sys.stdin` and the others anew, for the kind of files that the descriptors now are."""
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


def new_main() -> None:
    """Make the module that the program will be."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    sys.argv = [""]


def _run_main(source: str, on_memory_error: Callable[[], None]) -> int:
    linecache.cache[FILE_NAME] = (len(source), None, source.splitlines(keepends=True), FILE_NAME)
    try:
        exec(compile(source, FILE_NAME, "exec", dont_inherit=True), sys.modules["__main__"].__dict__)
    except SystemExit as error:
        return _exit_code(error)
    except BaseException as error:  # noqa: BLE001 - whatever a program raises ends here, as in python
        if isinstance(error, MemoryError):
            on_memory_error()
        _report(error)
        return 1
    return 0


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    sys.stderr.write(f"{error.code}\n")
    return 1


def _report(error: BaseException) -> None:
    inner = error.__traceback__.tb_next if error.__traceback__ else None
    try:
        if sys.excepthook is sys.__excepthook__:  # which knows no source but that of files
            traceback.print_exception(type(error), error, inner)
        else:
            sys.excepthook(type(error), error.with_traceback(inner), inner)
    except BaseException:  # noqa: BLE001 - the job's own hook, or no memory left to print with
        os.write(2, type(error).__name__.encode() + b"\n")


def _shut_down(code: int) -> int:
    try:
        threading = sys.modules.get("threading")  # as the interpreter does; to import it here would slow each fork down
        if threading is not None:
            threading._shutdown()
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] - likewise
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as error:
        return _exit_code(error)
    except BaseException as error:  # noqa: BLE001 - as python: a failing flush at exit is code 120
        os.write(2, f"{type(error).__name__} at exit\n".encode())
        return 120
    return code
