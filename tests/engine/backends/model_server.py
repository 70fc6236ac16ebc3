"""A little server that samples from a model and speaks vLLM's or SGLang's protocol, with faults on demand.

Its answers are the recorded ones of `fixtures/` with the values replaced, so that it says what the real servers say.
Its sampling is its own: a forward of the whole sequence for each token, by transformers' code, one filter after the
other. It keeps the logits after a prompt by the request's salt, as a prefix cache does, so that old ones are met
again unless the cache is reset or the salt is another.
"""

import copy
import json
import threading
import time
from collections import deque
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import torch
from safetensors.torch import load_file

from tests.fakes import plain_copy, tiny_tokenizer

FIXTURES = Path(__file__).parent / "fixtures"


def fixture(name):
    return json.loads((FIXTURES / f"{name}.json").read_text())


class ModelServer:
    """`faults` are taken one a request that samples; `broken` holds the verbs that do not do what they should."""

    def __init__(self, model, *, dialect, is_processed=True):
        self.dialect, self.is_processed = dialect, is_processed
        self.verbs = fixture(f"{dialect}_verbs")
        self._base = plain_copy(model)
        self._model = self._base
        self._tokenizer = tiny_tokenizer()
        self._cache, self._lock = {}, threading.Lock()
        self.label, self.running = "default", threading.Event()
        self.running.set()
        self.faults, self.broken, self.log = deque(), set(), []
        self.num_under_way, self.most_under_way = 0, 0

    def __enter__(self):
        handler = type("Handler", (_Handler,), {"served": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def paths(self):
        return [path for path, _ in self.log]

    def complete(self, body):
        done = self._sample(
            body["prompt"], body, body["seed"], body["max_tokens"], body["stop_token_ids"], body.get("cache_salt"),
            body["logprobs"], body.get("prompt_logprobs") is not None,
        )  # fmt: skip
        answer = copy.deepcopy(fixture("vllm_completions")["response"])
        choice = answer["choices"][0]
        names = [{f"token_id:{i}": value for i, value in place} for place in done["top"]]
        choice["logprobs"] |= {"token_logprobs": done["logprobs"], "top_logprobs": names}
        choice |= {"token_ids": done["ids"], "prompt_token_ids": body["prompt"], "finish_reason": done["reason"]}
        choice["prompt_logprobs"] = done["prompt"] and [
            None,
            *({str(i): {"logprob": v}} for i, v in zip(body["prompt"][1:], done["prompt"], strict=True)),
        ]
        return answer

    def generate(self, body):
        params = body["sampling_params"]
        done = self._sample(
            body["input_ids"], params, params["sampling_seed"], params["max_new_tokens"], params["stop_token_ids"],
            body.get("extra_key"), body["top_logprobs_num"], body["logprob_start_len"] == 0,
        )  # fmt: skip
        answer = copy.deepcopy(fixture("sglang_generate")["response"])
        answer["output_ids"] = done["ids"]
        answer["meta_info"] |= {
            "finish_reason": {"type": done["reason"]},
            "prompt_tokens": len(body["input_ids"]),
            "weight_version": self.label,
            "output_token_logprobs": [[v, i, None] for v, i in zip(done["logprobs"], done["ids"], strict=True)],
            "output_top_logprobs": [[[v, i, None] for i, v in place] for place in done["top"]],
            "input_token_logprobs": [
                [v, i, None] for v, i in zip([None, *done["prompt"]], body["input_ids"], strict=False)
            ],
        }
        return answer

    def take_weights(self, folder):
        weights = load_file(Path(folder) / "model.safetensors")
        self._model = copy.deepcopy(self._base)
        self._model.load_state_dict(weights, strict=False)
        self._model.tie_weights()

    def take_adapter(self, folder):
        """Merge the adapter into a copy of the base, as peft defines it."""
        config = json.loads((Path(folder) / "adapter_config.json").read_text())
        tensors = load_file(Path(folder) / "adapter_model.safetensors")
        self._model = copy.deepcopy(self._base)
        scale = config["lora_alpha"] / config["r"]
        for key in [key for key in tensors if key.endswith("lora_A.weight")]:
            name = key.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
            up = tensors[key.replace("lora_A", "lora_B")]
            self._model.get_submodule(name).weight.data += scale * up @ tensors[key]

    def reset_cache(self):
        self._cache.clear()

    @torch.inference_mode()
    def _sample(self, prompt, params, seed, max_tokens, stop_ids, salt, num_top, wants_prompt):
        generator = torch.Generator().manual_seed(seed % (1 << 62))
        ids, logprobs, top, reason = [], [], [], "length"
        while len(ids) < max_tokens:
            logprobs_V = filtered(self._logits(prompt, ids, salt), params)
            token = logprobs_V.argmax() if params["temperature"] == 0 else draw(logprobs_V, generator)
            told_V = logprobs_V if self.is_processed else self._logits(prompt, ids, salt).log_softmax(-1)
            ids.append(int(token))
            logprobs.append(told_V[token].item())
            best = told_V.topk(max(num_top, 1))
            top.append(list(zip(best.indices.tolist(), best.values.tolist(), strict=True))[:num_top])
            if ids[-1] in stop_ids or any(stop in self._tokenizer.decode(ids) for stop in params["stop"]):
                reason = "stop"
                break
        of_prompt = []
        if wants_prompt:
            all_T_V = self._model(torch.tensor([prompt])).logits[0].double().log_softmax(-1)
            of_prompt = [all_T_V[i, token].item() for i, token in enumerate(prompt[1:])]
        return {"ids": ids, "logprobs": logprobs, "top": top, "reason": reason, "prompt": of_prompt}

    def _logits(self, prompt, ids, salt):
        self.running.wait(10)
        key = (salt, tuple(prompt), tuple(ids))
        if key not in self._cache:
            with self._lock:
                self._cache[key] = self._model(torch.tensor([[*prompt, *ids]])).logits[0, -1].double()
        return self._cache[key]


def filtered(logits_V, params):
    """The distribution to sample from: temperature, top-k, top-p, min-p, one after another on a sorted list."""
    logprobs_V = (logits_V / (params["temperature"] or 1)).log_softmax(-1)
    if params["top_k"] <= 0 and params["top_p"] >= 1 and params["min_p"] <= 0:
        return logprobs_V
    probs = logprobs_V.exp().tolist()
    order = sorted(range(len(probs)), key=lambda i: -probs[i])
    kept = order[: params["top_k"]] if params["top_k"] > 0 else order
    total, mass, nucleus = sum(probs[i] for i in kept), 0.0, []
    for i in kept:
        if mass < params["top_p"] * total:
            nucleus.append(i)
        mass += probs[i]
    nucleus = [i for i in nucleus if probs[i] >= params["min_p"] * probs[nucleus[0]]]
    left_V = torch.full_like(logprobs_V, -torch.inf)
    left_V[nucleus] = logprobs_V[nucleus].log_softmax(-1)
    return left_V


def draw(logprobs_V, generator):
    return torch.multinomial(logprobs_V.exp(), 1, generator=generator)[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self._answer("GET", {})

    def do_POST(self):
        self._answer("POST", json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}"))

    def _answer(self, method, body):
        served, path = self.served, urlsplit(self.path).path
        served.log.append((path, body))
        if path in ("/v1/completions", "/generate"):
            served.num_under_way += 1
            served.most_under_way = max(served.most_under_way, served.num_under_way)
            fault = served.faults.popleft() if served.faults else None
            answer = served.complete(body) if path == "/v1/completions" else served.generate(body)
            served.num_under_way -= 1
            self._with_fault(answer, fault)
            return
        recorded = served.verbs.get(f"{method} {path}")
        if recorded is None:
            self._send(404, {"detail": "Not Found"})
            return
        self._send(*self._verb(path, body, copy.deepcopy(recorded)))

    def _verb(self, path, body, answer):
        served, is_broken = self.served, path in self.served.broken
        match path:
            case "/pause" | "/pause_generation":
                time.sleep(1.0 if is_broken else 0.0)
                served.running.clear()
            case "/resume" | "/continue_generation":
                served.running.set()
            case "/collective_rpc" if not is_broken:
                assert body["method"] == "reload_weights"
                served.take_weights(body["kwargs"]["weights_path"])
            case "/update_weights_from_disk" if not is_broken:
                served.take_weights(body["model_path"])
            case "/v1/load_lora_adapter" | "/load_lora_adapter" if not is_broken:
                served.take_adapter(body["lora_path"])
            case "/reset_prefix_cache":
                if is_broken:
                    return 200, answer | {"success": False}
                served.reset_cache()
            case "/flush_cache":
                if is_broken:
                    return 400, "Flush cache failed.\n"
                served.reset_cache()
            case "/update_weight_version":
                served.label = served.label if is_broken else body["new_version"]
            case "/weight_info" | "/get_model_info":
                return 200, answer | {"weight_version": served.label}
        return 200, answer

    def _with_fault(self, answer, fault):
        is_vllm = self.served.dialect == "vllm"
        if fault in (429, 500, 503):
            self._send(fault, {"error": {"message": "no"}}, {"Retry-After": "0"})
        elif fault == "half_closed":
            self._send(200, answer, cut=40)
        elif fault == "slow":
            time.sleep(1.5)
            self._send(200, answer)
        elif fault in ("nan", "null"):
            value = float("nan") if fault == "nan" else None
            if is_vllm:
                answer["choices"][0]["logprobs"]["token_logprobs"][-1] = value
            else:
                answer["meta_info"]["output_token_logprobs"][-1][0] = value
            self._send(200, answer)
        elif fault == "no_prompt_logprobs":
            if is_vllm:
                answer["choices"][0]["prompt_logprobs"] = None
            else:
                answer["meta_info"]["input_token_logprobs"] = None
            self._send(200, answer)
        elif fault == "no_token_ids":
            del (answer["choices"][0] if is_vllm else answer)["token_ids" if is_vllm else "output_ids"]
            self._send(200, answer)
        elif fault == "longer_prompt":
            if is_vllm:
                answer["choices"][0]["prompt_token_ids"].insert(0, 1)
            else:
                answer["meta_info"]["prompt_tokens"] += 1
            self._send(200, answer)
        elif fault == "abort":
            if is_vllm:
                answer["choices"][0]["finish_reason"] = "abort"
            else:
                answer["meta_info"]["finish_reason"] = {"type": "abort", "message": "gone"}
            self._send(200, answer)
        else:
            assert fault is None, fault
            self._send(200, answer)

    def _send(self, status, answer, headers=None, cut=None):
        content = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        with suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content[:cut])
            self.wfile.flush()
        self.close_connection = True
