"""`burnish sandbox serve`: give another host this one's sandbox."""

import asyncio
import os
import socket
from pathlib import Path

import typer

from burnish.core.errors import ConfigError
from burnish.sandbox import backends

TOKEN_ENV = "BURNISH_SANDBOX_TOKEN"
FEWEST_TOKEN_CHARACTERS = 16
LOCAL = ("127.0.0.1", "::1", "localhost")


def serve(
    host: str, port: int, isolation: str, num_workers: int, token_file: Path | None, cert: Path | None, key: Path | None
) -> None:
    """Serve until stopped; the address is printed once it answers."""
    token = read_token(token_file)
    if (cert is None) != (key is None):
        raise ConfigError("--cert and --key belong together; give both, or neither")
    if cert is None and host not in LOCAL:
        raise ConfigError(f"--host {host}: without --cert and --key the token would be read on the way")
    try:
        import uvicorn  # noqa: PLC0415 - an extra

        from burnish.sandbox.backends.server import Settings, application  # noqa: PLC0415 - likewise
    except ModuleNotFoundError as error:
        raise ConfigError(f"no module {error.name!r}: pip install burnish[serve]") from error

    async def run() -> None:
        async with backends.open_backend(isolation, num_workers=num_workers) as backend:
            settings = Settings(token=token, max_running=num_workers)
            config = uvicorn.Config(
                application(backend, settings),
                log_level="warning",
                server_header=False,
                ssl_certfile=cert,
                ssl_keyfile=key,
            )
            with _listener(host, port) as listener:
                scheme = "https" if cert else "http"
                typer.echo(f"{isolation} on {scheme}://{host}:{listener.getsockname()[1]}")
                await uvicorn.Server(config).serve([listener])

    asyncio.run(run())


def read_token(token_file: Path | None) -> str:
    """Read the token from a file or the environment; one that could be guessed is refused."""
    if token_file is not None:
        try:
            token = token_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConfigError(f"cannot read the token file: {error}") from error
    else:
        token = os.environ.get(TOKEN_ENV, "")
    if len(token) < FEWEST_TOKEN_CHARACTERS:
        raise ConfigError(
            f"the token has {len(token)} characters, expected {FEWEST_TOKEN_CHARACTERS} or more: set {TOKEN_ENV} or "
            "--token-file; `openssl rand -hex 32` makes one"
        )
    return token


def _listener(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error}") from error
