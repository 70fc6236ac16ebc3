"""The verdict cache: what was paid once is looked up, by content.

A key is the SHA-256 of verifier version, environment, task content and answer (`Question`), so that an edited verifier,
a new sandbox image or another truth never meets an old verdict. Rows live in a `Store`: `verdict_store_sqlite` (one
host, many processes) or `verdict_store_redis` (many hosts).

Decisions: only `scored` verdicts are kept, and none of a task that was found flaky. Each row ends in an HMAC over its
key and its content under a secret that the sandbox never sees: a damaged, copied or forged row is a miss, never a
verdict. A row stands under the answer as it was written and under the normalised one, so that a repeat costs one hash.
`keep` and `flag` are for the verification module; whoever else wants verdicts asks a judge.
A store that fails is a miss and a warning, never a stop.
"""

import hashlib
import hmac
import json
import os
import secrets
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol

from burnish.core.errors import ConfigError
from burnish.core.types import Verdict, sha256_json

MAC_BYTES = 32
MOST_ENTRIES = 1_000_000


class Row(NamedTuple):
    """One kept verdict: where it stands, what it belongs to, what it says."""

    key: str
    task: str
    domain: str
    content: bytes


class Store(Protocol):
    """Keeps rows and flags. `StoreError` where it cannot; the cache then goes on without."""

    is_quick: bool
    """Whether `get` answers in microseconds, so that an event loop may wait for it."""

    def get(self, key: str) -> bytes | None:
        """The content of a row, as it was put."""
        ...

    def put(self, rows: list[Row]) -> None:
        """Keep rows, all or none."""
        ...

    def drop(self, owner: str) -> None:
        """Flag a task or a domain: forget its rows, and keep none of them again."""
        ...

    def close(self) -> None:
        """Let go; safe to call twice."""
        ...


class StoreError(Exception):
    """A store cannot answer now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a verdict depends on, less the answer. `domain` names the verifier that a flag may cover."""

    verifier: str
    environment: str
    domain: str
    task: str

    @property
    def task_key(self) -> str:
        """Under which the task is flagged."""
        return sha256_json(["task", self.verifier, self.environment, self.task])

    @property
    def domain_key(self) -> str:
        """Under which the domain is flagged."""
        return sha256_json(["domain", self.verifier, self.environment, self.domain])

    def key(self, answer: str) -> str:
        """The address of the verdict on an answer."""
        return sha256_json(["verdict", self.verifier, self.environment, self.domain, self.task, answer])


class Cache:
    """Looks up and, for the verification module alone, keeps and drops; hand `look_up` to others."""

    def __init__(self, store: Store, secret: bytes) -> None:
        self._store, self._secret = store, secret
        self._has_warned = False
        self.is_quick = store.is_quick

    def look_up(self, key: str) -> Verdict | None:
        """The verdict under a key, marked as from the cache; None where there is none that can be trusted."""
        try:
            content = self._store.get(key)
        except StoreError as error:
            return self._warn(error)
        return None if content is None else _unseal(key, content, self._secret)

    def keep(self, question: Question, answers: Sequence[str], verdict: Verdict) -> None:
        """Keep a scored verdict under each form of its answer; anything else is not kept."""
        if verdict.kind != "scored":
            return
        keys = [question.key(answer) for answer in dict.fromkeys(answers)]
        rows = [Row(key, question.task_key, question.domain_key, _seal(key, verdict, self._secret)) for key in keys]
        try:
            self._store.put(rows)
        except StoreError as error:
            self._warn(error)

    def flag(self, owner: str) -> None:
        """A task or a domain gives more than one verdict on one answer: forget its rows, keep none from now on."""
        try:
            self._store.drop(owner)
        except StoreError as error:
            self._warn(error)

    def close(self) -> None:
        """Let go of the store; safe to call twice."""
        self._store.close()

    def _warn(self, error: StoreError) -> None:
        if not self._has_warned:
            warnings.warn(f"verdict cache: {error}; going on without it", RuntimeWarning, stacklevel=3)
        self._has_warned = True


def open_cache(place: str, *, secret_file: Path | None = None, most_entries: int = MOST_ENTRIES) -> Cache:
    """Open `redis://...` (also `rediss://`, `unix://`) or the SQLite file of that name."""
    if "://" not in place:
        store = import_module("burnish.rewards.verdict_store_sqlite").SqliteStore(Path(place), most_entries)
        return Cache(store, _secret(secret_file or Path(f"{place}.secret")))
    if secret_file is None:
        raise ConfigError(
            f"verdict cache {place!r}: a shared cache needs a secret that its users share; name a file that they all"
            " read (it is made where it is missing) by --set verify.secret_file=PATH"
        )
    return Cache(import_module("burnish.rewards.verdict_store_redis").RedisStore(place), _secret(secret_file))


def _secret(path: Path) -> bytes:
    """Read the secret, or make it: whole or absent, and for its owner alone."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            made = path.with_name(f"{path.name}.{os.getpid()}")
            made.touch(mode=0o600)
            made.write_text(secrets.token_hex(32), encoding="ascii")
            with suppress(FileExistsError):  # another process was first: its secret counts
                os.link(made, path)
            made.unlink()
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"verdict cache: cannot read its secret {str(path)!r}: {error}") from None
    if len(text) < 32:
        raise ConfigError(
            f"verdict cache: the secret {str(path)!r} has {len(text)} signs, expected 32 or more; remove it"
        )
    return text.encode()


def _seal(key: str, verdict: Verdict, secret: bytes) -> bytes:
    content = json.dumps([verdict.score, dict(verdict.parts), verdict.evidence], separators=(",", ":")).encode()
    return _mac(key, content, secret) + content


def _unseal(key: str, row: bytes, secret: bytes) -> Verdict | None:
    mac, content = row[:MAC_BYTES], row[MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(key, content, secret)):
        return None
    score, parts, evidence = json.loads(content)
    return Verdict(kind="scored", score=score, parts=parts, evidence=evidence, from_cache=True)


def _mac(key: str, content: bytes, secret: bytes) -> bytes:
    return hmac.digest(secret, key.encode() + b"\0" + content, hashlib.sha256)
