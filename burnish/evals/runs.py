"""One evaluation of one model on one suite, as a record that is kept by its content.

Decisions: the key of a record is what its numbers depend on: the model's fingerprint, the suite's content and the
harness (`harness_version`: our code that asks and judges, and the packages beside it). The same question is therefore
never paid for twice, and a change of one line of a verifier asks anew. A model that only a server knows has no
fingerprint: its results are kept, for `burnish compare`, and never used again in place of asking.
Kept under `$BURNISH_CACHE` (else `~/.cache/burnish`), `evals/`, one JSON file each, whole or absent.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from burnish.core.errors import ConfigError
from burnish.core.run_folder import write_whole
from burnish.core.types import sha256_json
from burnish.evals.records import EvalResult

FORMAT = 1
CODE = ("chat", "domains", "engine", "evals", "models", "rewards")
PACKAGES = ("torch", "transformers", "tokenizers", "reasoning-gym", "google-re2", "sympy", "math-verify")
MODEL_FILES = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.txt", "*.gguf")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalRun:
    """What a model did on a suite; `results` has one entry a reply."""

    model: str
    fingerprint: str
    """Of weights and tokenizer; empty where nobody here can see them."""
    suite: str
    layer: str
    suite_hash: str
    harness: str
    seed: int
    samples: int
    temperature: float
    top_p: float = 1.0
    results: tuple[EvalResult, ...]
    began_s: float
    """Seconds since 1970."""
    wall_s: float
    format: int = field(default=FORMAT)

    @property
    def key(self) -> str:
        """Equal keys mean equal questions to an equal model; of a server's model, each evaluation is its own."""
        known = self.fingerprint or f"{self.model} at {self.began_s}"
        return key_of(known, self.suite_hash, self.harness)

    def to_json(self) -> str:
        """The record as JSON."""
        return json.dumps(asdict(self), ensure_ascii=True)


def key_of(fingerprint: str, suite_hash: str, harness: str) -> str:
    """The name under which a record is kept."""
    return sha256_json([fingerprint, suite_hash, harness])


def from_json(text: str, where: str) -> EvalRun:
    """Read a record; `ConfigError` for what is none, or of another format."""
    try:
        data: dict[str, Any] = json.loads(text)
        if data["format"] != FORMAT:
            raise ConfigError(
                f"{where}: results of format {data['format']!r}; this version reads {FORMAT}; evaluate again"
            )
        data["results"] = tuple(EvalResult(**each) for each in data["results"])
        return EvalRun(**data)
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"{where}: no results of an evaluation ({error}); expected what `burnish eval` has kept"
        ) from None


class Store:
    """The folder of kept evaluations."""

    def __init__(self, folder: Path | None = None) -> None:
        root = os.environ.get("BURNISH_CACHE")
        self.folder = folder or (Path(root) if root else Path.home() / ".cache" / "burnish") / "evals"

    def keep(self, run: EvalRun) -> Path:
        """Write a record; returns where it lies."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{run.key}.json"
        write_whole(path, lambda temporary: temporary.write_text(run.to_json(), encoding="utf-8"))
        return path

    def find(self, fingerprint: str, suite_hash: str, harness: str) -> EvalRun | None:
        """The record of the same question to the same model, if there is one."""
        path = self.folder / f"{key_of(fingerprint, suite_hash, harness)}.json"
        return from_json(path.read_text(encoding="utf-8"), str(path)) if fingerprint and path.is_file() else None

    def of(self, model: str) -> dict[str, EvalRun]:
        """The newest record of each suite of a model, by the name that it was evaluated under or its fingerprint."""
        newest: dict[str, EvalRun] = {}
        for run in self._all():
            is_it = run.model == model or (len(model) >= 8 and run.fingerprint.startswith(model))
            if is_it and (run.suite not in newest or newest[run.suite].began_s < run.began_s):
                newest[run.suite] = run
        return newest

    def _all(self) -> Iterator[EvalRun]:
        for path in sorted(self.folder.glob("*.json")):
            yield from_json(path.read_text(encoding="utf-8"), str(path))


def fingerprint_of_files(folder: Path, patterns: Sequence[str] = MODEL_FILES, *, more: Sequence[str] = ()) -> str:
    """A hash of a model folder's weights, configuration and tokenizer, by name and content, and of `more`."""
    files = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})
    digest = hashlib.sha256("\0".join(more).encode())
    for path in files:
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def harness_version() -> str:
    """A hash of the code that asks and judges, and of the versions of packages that replies or verdicts depend on."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256(" ".join(map(_version, PACKAGES)).encode())
    for path in (path for folder in CODE for path in sorted((root / folder).rglob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"{package} absent"
