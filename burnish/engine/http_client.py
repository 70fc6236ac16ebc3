"""JSON over HTTP to a server of models: one connection a request, bounded in time, and given up from any thread.

Decisions: the standard library's client, in threads. A request blocks until its whole answer is there, so a thread
for each of the `max_rows` requests under way is all the concurrency that is needed, and shutting a socket ends a
request at once, which the servers take as a cancellation. What may be asked twice (sampling with a seed, reading) is
asked again after a broken connection, 408, 429 or 5xx, later and later, and not before `Retry-After`; what changes
the server (`may_repeat=False`) is asked once. The time limit is for all tries together.

Covered: TLS with a certificate authority of your own, a key from an environment variable (never over plain http://
to another host). Not covered: proxies, streaming.
"""

import http.client
import itertools
import json
import os
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from burnish.core.config import Strict
from burnish.core.errors import ConfigError, EngineError
from burnish.core.types import Json

MOST_BYTES = 1 << 30
_LOCAL = ("127.0.0.1", "::1", "localhost")
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_REPEATABLE = frozenset({408, 429, 500, 502, 503, 504})


class Answer(BaseModel):
    """What a server says. Fields that are not named are ignored: servers add some with every release."""

    model_config = ConfigDict(frozen=True, extra="ignore")


A = TypeVar("A", bound=Answer)


class Server(Strict):
    """Where a server is, and how patiently it is asked."""

    url: str = Field(pattern=r"^https?://[^/?#]+(/[^?#]*)?$")
    """For example http://127.0.0.1:8000; an ending /v1 may be there or not."""
    api_key_env: str = ""
    """The environment variable that holds the key: a recipe is kept with its run, a secret must not be."""
    ca_file: str = ""
    """Certificates to trust instead of the system's."""
    timeout_s: float = Field(default=600.0, gt=0)
    """For one request, all its tries together."""
    most_tries: int = Field(default=5, ge=1)


class Refused(EngineError):
    """The server answered with an error."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class GivenUp(EngineError):
    """The request was given up by us."""


class Lifeline:
    """Lets another thread give a request up, whether it waits for its turn, for a try or for an answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given_up = threading.Event()
        self._end: Callable[[], object] | None = None

    @property
    def is_cut(self) -> bool:
        """Whether the request was given up."""
        return self._given_up.is_set()

    def cut(self) -> None:
        """Give the request up."""
        with self._lock:
            self._given_up.set()
            if self._end is not None:
                self._end()

    def hold(self, end: Callable[[], object] | None) -> None:
        """Say what ends the request now; done at once where it was given up already."""
        with self._lock:
            self._end = end
            if end is not None and self._given_up.is_set():
                end()

    def sleep(self, seconds: float) -> None:
        """Wait, unless the request is given up."""
        self._given_up.wait(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Try:
    """One answer, as it came; status 0 is none."""

    fault: str
    status: int = 0
    content: bytes = b""
    retry_after_s: float = 0.0


class Client:
    """Asks one server; any number of threads may ask at once."""

    def __init__(self, server: Server) -> None:
        parts = urllib.parse.urlsplit(server.url)
        self._host, self._port, self._is_tls = parts.hostname or "", parts.port, parts.scheme == "https"
        self._prefix = parts.path.rstrip("/").removesuffix("/v1")
        self._headers = {"Content-Type": "application/json", **_authorization(server, self._host, self._is_tls)}
        self._context = ssl.create_default_context(cafile=server.ca_file or None) if self._is_tls else None
        self._server = server
        self._jitter = Random(0)
        self.name = f"{parts.scheme}://{parts.netloc}"

    def get(self, path: str, answer: type[A], *, timeout_s: float | None = None) -> A:
        """Read something."""
        return self._ask("GET", path, None, answer, timeout_s=timeout_s, may_repeat=True, lifeline=Lifeline())

    def post(
        self, path: str, body: Mapping[str, Json], answer: type[A], *, may_repeat: bool,
        timeout_s: float | None = None, lifeline: Lifeline | None = None,
    ) -> A:  # fmt: skip
        """Ask for something to be done; `Refused` if the server will not, `GivenUp` if the lifeline was cut."""
        return self._ask(
            "POST", path, body, answer,
            timeout_s=timeout_s, may_repeat=may_repeat, lifeline=lifeline or Lifeline(),
        )  # fmt: skip

    def _ask(
        self, method: str, path: str, body: Mapping[str, Json] | None, answer: type[A], *,
        timeout_s: float | None, may_repeat: bool, lifeline: Lifeline,
    ) -> A:  # fmt: skip
        limit_s = timeout_s or self._server.timeout_s
        until = time.monotonic() + limit_s
        what = f"{method} {path} at {self.name}"
        most_tries = self._server.most_tries if may_repeat else 1
        payload = None if body is None else json.dumps(body).encode()
        for number in itertools.count(1):
            got = self._try(method, path, payload, until, lifeline)
            if lifeline.is_cut:
                raise GivenUp(f"{what}: given up")
            if got.status and (got.status not in _REPEATABLE or number == most_tries):
                return _read(what, got, answer)
            pause_s = max(got.retry_after_s, self._pause(number))
            if time.monotonic() + pause_s >= until:
                raise EngineError(f"{what}: no answer within {limit_s:g} s ({got.fault}); see the server's log")
            if number == most_tries:
                raise EngineError(
                    f"{what}: {got.fault}, after {most_tries} tries; is the server running and reachable?"
                )
            lifeline.sleep(pause_s)
        raise AssertionError

    def _try(self, method: str, path: str, payload: bytes | None, until: float, lifeline: Lifeline) -> _Try:
        try:
            return self._try_once(method, path, payload, until, lifeline)
        except (OSError, http.client.HTTPException) as error:
            return _Try(fault=f"{type(error).__name__} {error}".strip())

    def _try_once(self, method: str, path: str, payload: bytes | None, until: float, lifeline: Lifeline) -> _Try:
        connection = self._connection(_left(until))
        try:
            connection.connect()
            lifeline.hold(partial(_shut, connection.sock))
            connection.request(method, self._prefix + path, payload, self._headers)
            connection.sock.settimeout(_left(until))
            response = connection.getresponse()
            return _Try(
                status=response.status,
                content=_content(response, connection.sock, until),
                retry_after_s=_retry_after(response),
                fault=f"HTTP {response.status}",
            )
        finally:
            lifeline.hold(None)
            connection.close()

    def _connection(self, wait_s: float) -> http.client.HTTPConnection:
        if self._context is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=wait_s, context=self._context)
        return http.client.HTTPConnection(self._host, self._port, timeout=wait_s)

    def _pause(self, number: int) -> float:
        longest_s = min(_FIRST_PAUSE_S * 2 ** (number - 1), _LONGEST_PAUSE_S)
        return longest_s * (0.5 + self._jitter.random() / 2)


def _authorization(server: Server, host: str, is_tls: bool) -> dict[str, str]:
    if not server.api_key_env:
        return {}
    key = os.environ.get(server.api_key_env, "")
    if not key:
        raise ConfigError(f"no key for {server.url!r}: set the environment variable {server.api_key_env}")
    if not is_tls and host not in _LOCAL:
        raise ConfigError(f"{server.url!r} would send the key of {server.api_key_env} in the clear; use https://")
    return {"Authorization": f"Bearer {key}"}


def _content(response: http.client.HTTPResponse, connected: socket.socket | None, until: float) -> bytes:
    """The whole body; `HTTPException` if the other side closed before its end."""
    content = bytearray()
    while piece := response.read(1 << 16):
        content += piece
        if len(content) > MOST_BYTES:
            raise http.client.HTTPException(f"an answer of more than {MOST_BYTES} bytes")
        if connected is not None and connected.fileno() >= 0:
            connected.settimeout(_left(until))
    if response.length:
        raise http.client.IncompleteRead(bytes(content), response.length)
    return bytes(content)


def _left(until: float) -> float:
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the time is over")
    return left_s


def _retry_after(response: http.client.HTTPResponse) -> float:
    """Seconds; the form with a date is not used by model servers and counts as absent."""
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdigit() else 0.0


def _read(what: str, got: _Try, answer: type[A]) -> A:
    text = got.content.decode("utf-8", "replace")
    if got.status != 200:
        raise Refused(f"{what}: HTTP {got.status}: {text[:500] or 'nothing said'}", got.status)
    if not answer.model_fields:  # only the status is asked for
        return answer()
    try:
        return answer.model_validate_json(got.content or b"{}")
    except ValidationError as error:
        raise EngineError(f"{what}: an answer that is not known: {error.errors()[0]['msg']}: {text[:300]!r}") from error


def _shut(connected: socket.socket) -> None:
    try:
        connected.shutdown(socket.SHUT_RDWR)
    except OSError:  # it is closed already
        return
