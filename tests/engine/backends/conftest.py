"""An engine of each kind over a model that can be changed under it; the real vLLM too, where one is installed."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch

from burnish.core import plugins
from burnish.core.types import Message
from burnish.models.load import load
from burnish.models.lora import trainable
from burnish.stages.session import open_chat
from tests.engine.backends.fake_sglang import Fake
from tests.engine.backends.model_server import ModelServer
from tests.fakes import random_model, tiny_chat

TIED = ("model.embed_tokens.weight",)
"""The build of vLLM for processors keeps a packed copy of a tied head, which `reload_weights` does not renew."""
KINDS = ["local", "vllm", "sglang", "sglang inside", "http"]
REAL = pytest.param("real vllm", marks=[pytest.mark.slow, pytest.mark.timeout(1200)])


@dataclass(kw_only=True)
class Backend:
    """An engine, and what it should sample from."""

    kind: str
    model: Any
    chat: Any
    state: SimpleNamespace
    move: Callable[[float], None]
    server: Any = None
    fake: Any = None
    tolerance: float = 1e-4
    options: dict = field(default_factory=dict)
    engine: Any = None
    stack: ExitStack = field(default_factory=ExitStack)

    def open(self, **options):
        """Open an engine as a session does; it is closed when the test ends."""
        name = self.kind.removeprefix("real ").removesuffix(" inside")
        module = plugins.load("engine", name)
        keywords = {"options": self.options | options} if hasattr(module, "Config") else {}
        engine = module.open_engine(self.model, self.chat, max_rows=8, version=lambda: self.state.version, **keywords)
        if hasattr(engine, "close"):
            self.stack.callback(engine.close)
        return engine

    def prompts(self, num):
        words = ["Say yes.", "Name a colour.", "Count to three.", "What is 2 + 2?"]
        return [self.chat.prompt_ids([Message(role="user", content=word)]) for word in words[:num]]


def mover(model, state, *, but=()):
    """Change what trains (all weights, where nothing was said) by some noise, and the version with it."""

    def move(scale=0.05):
        state.version += 1
        generator = torch.Generator().manual_seed(state.version)
        with torch.no_grad():
            for name, parameter in (trainable(model) or dict(model.named_parameters())).items():
                if name not in but:
                    size = max(parameter.std().item(), 0.05) * scale
                    parameter.add_(torch.randn(parameter.shape, generator=generator) * size)

    return move


def make_backend(kind, stack, server=None):
    """A backend of that kind over a random model of three layers."""
    model, state, fake = random_model("llama"), SimpleNamespace(version=3), None
    options = {"path": "torch"}
    if kind == "sglang inside":
        server = ModelServer(model, dialect="sglang")
        fake = stack.enter_context(fake_package(server))
        options = {"in_process": True, "model": "a folder"}
    elif kind != "local":
        dialect = "sglang" if kind == "sglang" else "vllm"
        server = stack.enter_context(server or ModelServer(model, dialect=dialect))
        options = {"url": server.url}
    return Backend(
        kind=kind, model=model, chat=tiny_chat(), state=state, move=mover(model, state),
        server=server, options=options, stack=stack, fake=fake,
    )  # fmt: skip


@contextmanager
def fake_package(server):
    """SGLang, as far as an engine in this process calls it."""
    fake = Fake(server)
    with patch.dict(sys.modules, fake.modules()):
        sys.modules.pop("burnish.engine.sglang_inside", None)
        yield fake
    sys.modules.pop("burnish.engine.sglang_inside", None)


@pytest.fixture
def make():
    """Make a backend by its kind; servers end with the test."""
    with ExitStack() as stack:
        yield lambda kind, **keywords: make_backend(kind, stack, **keywords)


@pytest.fixture
def backend(request, make):
    """The backend that a test is parametrised with, open."""
    made = request.getfixturevalue("real_vllm") if request.param == "real vllm" else make(request.param)
    made.engine = made.open()
    with made.stack:
        yield made


@pytest.fixture(scope="session")
def vllm_server(tmp_path_factory, starter):
    """A vLLM that serves the starter model in float32: started here, or one that runs already (BURNISH_VLLM_URL)."""
    if url := os.environ.get("BURNISH_VLLM_URL"):
        yield url
        return
    python = os.environ.get("BURNISH_VLLM_PYTHON")
    if not python:
        pytest.skip("no BURNISH_VLLM_PYTHON: run `make test-vllm`, or name an interpreter that has vllm")
    port = 8377
    command = [
        python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(starter.master_folder),
        "--served-model-name", "starter", "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32",
        "--enforce-eager", "--max-model-len", "1024", "--max-num-seqs", "16",
        "--logprobs-mode", "processed_logprobs", "--enable-lora", "--max-lora-rank", "16",
    ]  # fmt: skip
    environment = os.environ | {
        "VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "OMP_NUM_THREADS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    log = tmp_path_factory.mktemp("vllm") / "log.txt"
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="session")
def starter():
    """The starter model in float32, as the real server serves it at first."""
    return load("starter", dtype="float32")


@pytest.fixture
def real_vllm(vllm_server, starter):
    """The starter model, as the tests before have left it, over the one real server."""
    state = SimpleNamespace(version=3)
    return Backend(
        kind="real vllm", model=starter.model, chat=open_chat(starter), state=state,
        move=mover(starter.model, state, but=TIED), options={"url": vllm_server}, tolerance=2e-3,
    )  # fmt: skip


def wait_for(url, process, log):
    """Until it answers; a start takes half a minute on a quiet host."""
    until = time.monotonic() + 600
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(1)
    raise AssertionError(f"vllm did not start: {log.read_text()[-3000:]}")
