"""The worker as one program for the sandbox, where no `burnish` is installed: its modules, compiled, and a start.

Compiled code is used if the interpreter inside is the one that compiled it, as in the local backends; the
source goes along for any other.
"""

import base64
import importlib.util
import marshal
from functools import cache
from pathlib import Path
from typing import Final

MODULES: Final = (
    "code_tests_clock", "code_tests_codec", "code_tests_place", "code_tests_loader", "code_tests_integrity",
    "code_tests_session", "code_tests_subject", "code_tests_proxy", "pytest_worker",
)  # fmt: skip

PRELOAD: Final = ("json", "unittest", "tempfile", "ctypes", "hashlib", "traceback", "select", "ast")
PYTEST_PARTS: Final = (
    "mark main runner fixtures helpconfig python terminal debugging unittest capture skipping legacypath tmpdir "
    "monkeypatch recwarn assertion unraisableexception threadexception warnings logging reports"
).split()

_START: Final = """
import os, sys
sys.path[:] = [folder for folder in sys.path if folder not in ("", "/work", os.getcwd())]
import base64, importlib.util, marshal, types
for name in ("burnish", "burnish.rewards"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = []
for name, source, code in {modules!r}:
    module = sys.modules["burnish.rewards." + name] = types.ModuleType("burnish.rewards." + name)
    is_same = importlib.util.MAGIC_NUMBER == {magic!r}
    exec(marshal.loads(base64.b64decode(code)) if is_same else compile(source, name, "exec"), module.__dict__)
sys.modules["burnish.rewards.pytest_worker"].run(module.run)
"""


@cache
def program(framework: str) -> str:
    """Write the program that runs tests of one framework."""
    modules: list[tuple[str, str, str]] = []
    for name in (*MODULES, f"code_tests_{framework}"):
        source = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
        code = marshal.dumps(compile(source, f"<{name}>", "exec", dont_inherit=True))
        modules.append((name, source, base64.b64encode(code).decode()))
    return _START.format(modules=modules, magic=importlib.util.MAGIC_NUMBER)


def preload(framework: str) -> tuple[str, ...]:
    """The modules that a fork server has imported before a verdict is asked for."""
    return PRELOAD + (("pytest", *(f"_pytest.{name}" for name in PYTEST_PARTS)) if framework == "pytest" else ())
