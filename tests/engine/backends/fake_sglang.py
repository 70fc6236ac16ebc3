"""The package sglang as far as the engine calls it: its signatures, and a `ModelServer` behind them.

Signatures are those of `python/sglang/srt/entrypoints/engine.py` and `managers/tokenizer_control_mixin.py`, and the
messages those of `managers/io_struct.py`, of the main branch in the autumn of 2026: an argument that they do not have
is a TypeError here as it is there. `started` are the engines of a test.
"""

import asyncio
import atexit
import multiprocessing
import time
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace

ARGUMENTS = {
    "model_path",
    "max_running_requests",
    "enable_lora",
    "max_lora_rank",
    "lora_target_modules",
    "mem_fraction_static",
    "tp_size",
    "dp_size",
    "enable_deterministic_inference",
    "log_level",
}


@dataclass(kw_only=True)
class PauseGenerationReqInput:
    mode: str = "abort"


@dataclass(kw_only=True)
class ContinueGenerationReqInput:
    torch_empty_cache: bool = True


@dataclass(kw_only=True)
class UpdateWeightFromDiskReqInput:
    model_path: str
    load_format: str | None = None
    flush_cache: bool = True


@dataclass(kw_only=True)
class UpdateWeightVersionReqInput:
    new_version: str
    abort_all_requests: bool = True


@dataclass
class Watchdog:
    """It takes the end of a child for a crash, until it is stopped."""

    is_on: bool = True

    def stop(self):
        self.is_on = False


class TokenizerManager:
    """Verbs, each of a server's path."""

    def __init__(self, server):
        self._server = server
        self._subprocess_watchdog = Watchdog()
        self.context_len = 4096

    def _log(self, verb):
        self._server.log.append((verb, {}))
        return verb in self._server.broken

    async def pause_generation(self, obj):
        if self._log("pause_generation"):
            await asyncio.sleep(60)
        assert isinstance(obj, PauseGenerationReqInput) and obj.mode == "retract"
        self._server.running.clear()

    async def continue_generation(self, obj):
        self._log("continue_generation")
        assert isinstance(obj, ContinueGenerationReqInput)
        self._server.running.set()

    async def update_weights_from_disk(self, obj, request=None):
        if self._log("update_weights_from_disk"):
            return False, "no such file", 0
        assert not obj.flush_cache
        self._server.take_weights(obj.model_path)
        return True, "", 0

    async def flush_cache(self, timeout_s=None):
        if self._log("flush_cache"):
            return SimpleNamespace(success=False)
        self._server.reset_cache()
        return SimpleNamespace(success=True)

    async def update_weight_version(self, obj):
        assert isinstance(obj, UpdateWeightVersionReqInput) and not obj.abort_all_requests
        if not self._log("update_weight_version"):
            self._server.label = obj.new_version

    def abort_request(self, rid="", abort_all=False):
        self._server.log.append((f"abort {rid}", {}))


@dataclass
class Fake:
    """The modules to put into `sys.modules`, and the engines that were started."""

    server: object
    started: list = field(default_factory=list)

    def modules(self):
        fake, package, messages = self, ModuleType("sglang"), ModuleType("sglang.srt.managers.io_struct")
        for message in (
            PauseGenerationReqInput, ContinueGenerationReqInput, UpdateWeightFromDiskReqInput,
            UpdateWeightVersionReqInput,
        ):  # fmt: skip
            setattr(messages, message.__name__, message)

        class Engine(_Engine):
            def __init__(self, **kwargs):
                fake.started.append(self)
                super().__init__(fake.server, kwargs)

        package.Engine, package.__version__ = Engine, "0.1"
        folders = {name: ModuleType(name) for name in ("sglang.srt", "sglang.srt.managers")}
        return {"sglang": package, **folders, "sglang.srt.managers.io_struct": messages}


class _Engine:
    def __init__(self, server, arguments):
        if unknown := arguments.keys() - ARGUMENTS:
            raise TypeError(f"ServerArgs.__init__() got an unexpected keyword argument {min(unknown)!r}")
        self.arguments, self._server = arguments, server
        self.tokenizer_manager = None
        atexit.register(self.shutdown)
        self._scheduler = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
        self._scheduler.start()
        if "start" in server.broken:
            raise RuntimeError("Rank 0 scheduler died during initialization (exit code: -9)")
        self.tokenizer_manager = TokenizerManager(server)
        self.loop = asyncio.get_running_loop()

    def shutdown(self):
        raise AssertionError("SGLang's own shutdown kills every child of this process")

    async def async_generate(
        self, prompt=None, sampling_params=None, input_ids=None, return_logprob=False, logprob_start_len=None,
        top_logprobs_num=None, lora_path=None, rid=None, *, cache_salt=None,
    ):  # fmt: skip
        assert asyncio.get_running_loop() is self.loop and return_logprob and prompt is None
        assert lora_path is None or self.arguments.get("enable_lora")
        body = {
            "input_ids": input_ids, "sampling_params": sampling_params, "extra_key": cache_salt,
            "top_logprobs_num": top_logprobs_num, "logprob_start_len": logprob_start_len,
        }  # fmt: skip
        self._server.log.append(("async_generate", {"rid": rid, "lora_path": lora_path}))
        if self._server.faults:
            raise self._server.faults.popleft()
        return await asyncio.to_thread(self._server.generate, body)

    async def async_load_lora_adapter(self, lora_name, lora_path, pinned=False):
        self._server.log.append(("load_lora_adapter", {}))
        if "load_lora_adapter" in self._server.broken:
            return SimpleNamespace(success=False, error_message="rank too large")
        self._server.take_adapter(lora_path)
        return SimpleNamespace(success=True, error_message=None)

    async def async_unload_lora_adapter(self, lora_name):
        self._server.log.append(("unload_lora_adapter", {}))
        return SimpleNamespace(success=True, error_message=None)

    def get_model_info(self):
        return {"model_path": "", "weight_version": self._server.label}
