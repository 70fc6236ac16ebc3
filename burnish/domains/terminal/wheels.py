"""A wheel of one module, as a bash command that makes it: a task's files are text, and a wheel is a zip archive."""

import shlex
from typing import Final

PROGRAM: Final = """
import base64, hashlib, json, os, sys, zipfile
name, version, source = sys.argv[1:]
info = f"{name}-{version}.dist-info"
files = {
    f"{name}.py": source,
    f"{info}/METADATA": f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: burnish\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
}
def seal(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
rows = [f"{path},sha256={seal(text)}," for path, text in files.items()]
files[f"{info}/RECORD"] = "\\n".join([*rows, f"{info}/RECORD,,", ""])
os.makedirs("wheels", exist_ok=True)
with zipfile.ZipFile(f"wheels/{name}-{version}-py3-none-any.whl", "w") as archive:
    for path, text in files.items():
        archive.writestr(zipfile.ZipInfo(path, (2024, 1, 1, 0, 0, 0)), text)
"""


def wheel(name: str, version: str, source: str) -> str:
    """Write `wheels/NAME-VERSION-py3-none-any.whl`, of one module called as the package; equal ones are equal bytes."""
    return f"python3 -c {shlex.quote(PROGRAM)} {name} {version} {shlex.quote(source)}"
