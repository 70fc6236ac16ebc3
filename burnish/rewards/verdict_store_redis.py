"""Verdicts in Redis or Valkey: many hosts. The one door of the package `redis` (`pip install 'burnish[redis]'`).

Decisions: a row lives `LIFE_S` after its last use; the server's own `maxmemory` bounds the whole. The rows of a task or
a domain are not listed anywhere: each row names both, and is a miss once one of them is flagged. Short time limits;
after a failure the server is left alone for `REST_S`.
Not covered: Redis Cluster.
"""

import json
import time
from typing import Any, cast

import redis

from burnish.core.errors import ConfigError
from burnish.rewards.verdict_cache import Row, StoreError

PREFIX = "burnish:verdict:1:"
FLAG = "burnish:flag:1:"
LIFE_S = 60 * 60 * 24 * 60
ANSWER_S = 2.0
REST_S = 15.0


class RedisStore:
    """See `Store`."""

    is_quick = False

    def __init__(self, url: str) -> None:
        try:
            self._redis = redis.Redis.from_url(url, socket_timeout=ANSWER_S, socket_connect_timeout=ANSWER_S)
            self._redis.ping()
        except (redis.RedisError, ValueError) as error:
            raise ConfigError(f"cannot reach the verdict cache {_without_password(url)!r}: {error}") from None
        self._place = _without_password(url)
        self._rests_until = 0.0

    def get(self, key: str) -> bytes | None:
        """See `Store`."""
        row = self._ask("GETEX", PREFIX + key, "EX", LIFE_S)
        if not isinstance(row, bytes):
            return None
        head, _, content = row.partition(b"\n")
        try:
            owners = cast(list[str], json.loads(head))
            is_flagged = any(self._is_dropped(owner) for owner in owners)
        except (ValueError, TypeError):
            return None
        return None if is_flagged else content

    def put(self, rows: list[Row]) -> None:
        """See `Store`."""
        for row in rows:
            head = json.dumps([row.task, row.domain]).encode() + b"\n"
            self._ask("SET", PREFIX + row.key, head + row.content, "EX", LIFE_S)

    def drop(self, owner: str) -> None:
        """See `Store`."""
        self._ask("SET", FLAG + owner, b"1")

    def _is_dropped(self, owner: str) -> bool:
        return self._ask("EXISTS", FLAG + owner) == 1

    def close(self) -> None:
        """See `Store`."""
        self._redis.close()

    def _ask(self, *command: object) -> Any:
        if time.monotonic() < self._rests_until:
            raise StoreError(f"{self._place} did not answer a moment ago")
        try:
            return self._redis.execute_command(*command)
        except redis.RedisError as error:
            self._rests_until = time.monotonic() + REST_S
            raise StoreError(f"{self._place}: {error}") from None


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
