"""Writes crates/nilo-model/testdata/traced.json: what traces of small models take, against which the dry run in Rust is tested.

Needs PyTorch, transformers, peft and nilometer. A row that the file already has is kept, unless `--again` is given.

    python tools/fit/trace_cases.py                     # all models and settings
    python tools/fit/trace_cases.py --only mixtral/     # those whose name, model/settings, has this in it
    python tools/fit/trace_cases.py --again --only gpt2/
    python tools/fit/trace_cases.py --tape llama/bf16   # prints every allocation of one case instead
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import warnings
from array import array
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import peft
import torch
import transformers
from nilometer.fit import estimating
from nilometer.fit.fake_copy import fake_batch, fake_model
from nilometer.fit.gpus import find_gpu
from nilometer.fit.tape import AllocationTape
from nilometer.fit.tracing import TraceSession

TARGET = Path(__file__).resolve().parents[2] / "crates/nilo-model/testdata/traced.json"
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
GPU = "H100"

SMALL = {"hidden_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 2816, "vocab_size": 32000}
LATENT = SMALL | {"num_key_value_heads": 16, "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64}
EXPERTS = {"n_routed_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 512, "first_k_dense_replace": 1}
QKVO = ["q_proj", "k_proj", "v_proj", "o_proj"]
LATENT_PROJECTIONS = ["q_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]
# The class of the model and of its configuration, the configuration, and the layers of attention that an adapter goes to.
MODELS: dict[str, tuple[str, str, dict[str, Any], Any]] = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", SMALL, QKVO),
    "llama-tied-bias": ("LlamaForCausalLM", "LlamaConfig", SMALL | {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}, QKVO),
    "llama-wide-heads": ("LlamaForCausalLM", "LlamaConfig", SMALL | {"num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 256}, QKVO),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_embd": 1024, "n_layer": 6, "n_head": 16, "vocab_size": 50257}, r".*attn\.(c_attn|c_proj)"),
    "mistral": ("MistralForCausalLM", "MistralConfig", SMALL | {"sliding_window": 4096}, QKVO),
    "mistral-window": ("MistralForCausalLM", "MistralConfig", SMALL | {"sliding_window": 256}, QKVO),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", SMALL, QKVO),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", SMALL | {"head_dim": 128}, QKVO),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", SMALL | {"head_dim": 256, "num_attention_heads": 4, "num_key_value_heads": 1}, QKVO),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", SMALL | {"head_dim": 64}, QKVO),
    "gemma2-window": ("Gemma2ForCausalLM", "Gemma2Config", SMALL | {"head_dim": 64, "sliding_window": 256}, QKVO),
    "gemma3_text": ("Gemma3ForCausalLM", "Gemma3TextConfig", SMALL | {"head_dim": 64, "sliding_window": 256}, QKVO),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", SMALL | {"pad_token_id": 0}, ["qkv_proj", "o_proj"]),
    "phi": ("PhiForCausalLM", "PhiConfig", SMALL | {"num_key_value_heads": 16}, ["q_proj", "k_proj", "v_proj", "dense"]),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", SMALL, QKVO),
    "falcon": ("FalconForCausalLM", "FalconConfig", {"hidden_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 16, "vocab_size": 32000}, ["query_key_value", "dense"]),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", SMALL | {"num_local_experts": 8, "num_experts_per_tok": 2}, QKVO),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", SMALL | {"num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 512, "head_dim": 64}, QKVO),
    "deepseek_v2": ("DeepseekV2ForCausalLM", "DeepseekV2Config", LATENT | EXPERTS | {"q_lora_rank": None, "n_shared_experts": 2}, LATENT_PROJECTIONS),
    "deepseek_v3": ("DeepseekV3ForCausalLM", "DeepseekV3Config", LATENT | EXPERTS | {"q_lora_rank": 384, "n_shared_experts": 1, "n_group": 4, "topk_group": 2}, LATENT_PROJECTIONS),
}

TRAINING = {"work": "training", "batch": 4, "length": 1024, "dtype": "bf16"}
INFERENCE = TRAINING | {"work": "inference"}
ADAPTED = TRAINING | {"adapter_rank": 16, "adapter_dtype": "bf16"}
# For all models.
SETTINGS: dict[str, dict[str, Any]] = {
    "bf16": TRAINING,
    "fp32": TRAINING | {"dtype": "fp32"},
    "amp": TRAINING | {"dtype": "fp32", "autocast": "bf16"},
    "bf16-ckpt": TRAINING | {"checkpointing": True},
    "amp-ckpt": TRAINING | {"dtype": "fp32", "autocast": "bf16", "checkpointing": True},
    "bf16-eager": TRAINING | {"attention": "eager"},
    "lora": ADAPTED,
    "lora-ckpt": ADAPTED | {"checkpointing": True},
    "lora-fp32": ADAPTED | {"adapter_dtype": "fp32"},
    "lora-fp32-all": ADAPTED | {"adapter_dtype": "fp32", "adapts_all": True},
    "lora-all": ADAPTED | {"adapts_all": True},
    "infer": INFERENCE,
    "gen": INFERENCE | {"work": "generation", "new_tokens": 64},
    "gen-long": INFERENCE | {"work": "generation", "batch": 1, "length": 2048, "new_tokens": 512},
    "sgd": TRAINING | {"dtype": "fp32", "optimizer": "sgd"},
    "short": TRAINING | {"batch": 1, "length": 128},
}
# For some.
MORE_SETTINGS: dict[str, dict[str, Any]] = {
    "fp16": TRAINING | {"dtype": "fp16"},
    "amp-fp16": TRAINING | {"dtype": "fp32", "autocast": "fp16"},
    "fp32-ckpt": TRAINING | {"dtype": "fp32", "checkpointing": True},
    "amp-eager": TRAINING | {"dtype": "fp32", "autocast": "bf16", "attention": "eager"},
    "eager-ckpt": TRAINING | {"attention": "eager", "checkpointing": True},
    "lora-amp": ADAPTED | {"dtype": "fp32", "autocast": "bf16", "adapter_dtype": "fp32"},
    "lora-fp32-ckpt": ADAPTED | {"adapter_dtype": "fp32", "checkpointing": True},
    "lora-all-ckpt": ADAPTED | {"adapts_all": True, "checkpointing": True},
    "infer-amp": INFERENCE | {"dtype": "fp32", "autocast": "bf16"},
    "infer-eager": INFERENCE | {"attention": "eager"},
    "adamw-fused": TRAINING | {"optimizer": "adamw-fused", "batch": 1},
    "adamw-for-loop": TRAINING | {"optimizer": "adamw-for-loop", "batch": 1},
    "sgd-momentum": TRAINING | {"optimizer": "sgd-momentum", "batch": 1},
    "adafactor": TRAINING | {"optimizer": "adafactor", "batch": 1},
    "adafactor-short": TRAINING | {"optimizer": "adafactor", "batch": 1, "length": 64},
    "adamw-for-loop-short": TRAINING | {"optimizer": "adamw-for-loop", "batch": 1, "length": 64},
    "muon": TRAINING | {"optimizer": "muon", "batch": 1, "length": 64},
    "long": TRAINING | {"batch": 1, "length": 4096},
    "short-amp": TRAINING | {"batch": 1, "length": 128, "dtype": "fp32", "autocast": "bf16"},
    "accumulate": TRAINING | {"accumulation": 4},
    "accumulate-amp": TRAINING | {"dtype": "fp32", "autocast": "bf16", "accumulation": 4},
    "accumulate-short": TRAINING | {"batch": 1, "length": 128, "accumulation": 4},
}
WITH_MORE_SETTINGS = ["llama", "llama-tied-bias", "gpt2", "mistral-window", "gemma2", "phi3", "mixtral", "deepseek_v3"]
# GPT-2 has positions for 1024 tokens.
IMPOSSIBLE = {"gpt2/gen-long", "gpt2/long"}


class MuonAndAdamW:
    """Muon for matrices, as `torch.optim.Muon` wants it, and AdamW for the rest."""

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        matrices, rest = ([parameter for parameter in parameters if (parameter.dim() == 2) is is_matrix] for is_matrix in (True, False))
        self._optimizers = [torch.optim.Muon(matrices), torch.optim.AdamW(rest)]

    def step(self) -> None:
        for optimizer in self._optimizers:
            optimizer.step()

    def zero_grad(self) -> None:
        for optimizer in self._optimizers:
            optimizer.zero_grad()


OPTIMIZERS = estimating._OPTIMIZERS | {"muon": MuonAndAdamW}


class TapeInPlace(AllocationTape):
    """Sums of gradients in the memory of the first, as of real tensors: without data, PyTorch makes a new tensor for each."""

    _INTO_ZEROS = {"index_put", "scatter", "scatter_add"}

    def __init__(self, workspace_bytes: int) -> None:
        super().__init__(workspace_bytes)
        self._engine_sums: set[int] = set()

    def see(self, tensor: torch.Tensor, operation: str) -> None:
        count = len(self.purposes)
        super().see(tensor, operation)
        if len(self.purposes) > count and operation == "add" and _is_called_by_the_engine():
            self._engine_sums.add(count)

    def put_sums_in_place(self) -> None:
        """Where both summands, or the zeros that something is put into, are freed as soon as the result is there, one of them is the result."""
        events = list(zip(self.ids, self.sizes))
        sizes = {number: size for number, size in events if number > 0}
        same: dict[int, int] = {}
        kept: list[tuple[int, int]] = []
        at = 0
        while at < len(events):
            number, size = events[at]
            freed = [-later for later, _ in events[at + 1 : at + 3]]
            survivor = None
            if number in self._engine_sums and len(freed) == 2 and all(sizes.get(other) == size for other in freed):
                survivor, gone = min(freed), [max(freed)]
            elif number > 0 and self.operations[number] in self._INTO_ZEROS and freed and freed[0] > 0 and self.operations[freed[0]] == "new_zeros":
                survivor, gone = freed[0], []
            if survivor is None:
                original = same.get(abs(number), abs(number))
                kept.append((original if number > 0 else -original, size))
                at += 1
                continue
            same[number] = same.get(survivor, survivor)
            kept += [(-same.get(other, other), 0) for other in gone]
            at += 2 + len(gone)
        self.ids, self.sizes = array("q", (number for number, _ in kept)), array("Q", (size for _, size in kept))


def _is_called_by_the_engine() -> bool:
    """Whether no code in Python stands between backward and the operation, as it does in what a checkpoint computes again."""
    frame = sys._getframe(3)
    while frame.f_back is not None and frame.f_code.co_name in ("_fn", "inner"):
        frame = frame.f_back
    return frame.f_code.co_name == "_engine_run_backward"


def settings_of(model: str) -> dict[str, dict[str, Any]]:
    return SETTINGS | (MORE_SETTINGS if model in WITH_MORE_SETTINGS else {})


def config_of(model: str) -> Any:
    _, config_class, values, _ = MODELS[model]
    return getattr(transformers, config_class)(**values)


def made_model(model: str, settings: dict[str, Any]) -> torch.nn.Module:
    """The model on the meta device, in its type, with its adapters."""
    config = config_of(model)
    config._attn_implementation = settings.get("attention", "eager" if model.startswith("gemma2") else "sdpa")
    with torch.device("meta"):
        made = getattr(transformers, MODELS[model][0])(config).to(DTYPES[settings["dtype"]])
        if "adapter_rank" not in settings:
            return made
        targets = "all-linear" if settings.get("adapts_all") else MODELS[model][3]
        adapters = peft.LoraConfig(r=settings["adapter_rank"], target_modules=targets, task_type="CAUSAL_LM")
        adapted = peft.get_peft_model(made, adapters)
        return adapted if settings["adapter_dtype"] == "fp32" else adapted.to(DTYPES[settings["adapter_dtype"]])


def train(session: TraceSession, model: torch.nn.Module, batch: Any, settings: dict[str, Any], cast: torch.dtype | None) -> None:
    """Steps of so many batches each, whose gradients are added up in place, as those of real tensors are."""
    copy = fake_model(model, None, session.tape).train()
    if settings.get("checkpointing"):
        copy.gradient_checkpointing_enable()
    copy.config.use_cache = False
    trained = [parameter for parameter in copy.parameters() if parameter.requires_grad]
    optimizer = OPTIMIZERS[settings.get("optimizer", "adamw")](trained)
    sums: dict[torch.Tensor, torch.Tensor] = {}

    def add_up(parameter: torch.Tensor) -> None:
        gradient, parameter.grad = parameter.grad, None
        if parameter in sums:
            sums[parameter].add_(gradient)
        else:
            sums[parameter] = gradient

    accumulation = settings.get("accumulation", 1)
    if accumulation > 1:
        for parameter in trained:
            parameter.register_post_accumulate_grad_hook(add_up)
    for _ in range(3):
        for _ in range(accumulation):
            step_batch = fake_batch(batch, session.tape)
            with torch.autocast("cuda", cast) if cast is not None else contextlib.nullcontext():
                value = estimating.default_loss(estimating.called(copy, step_batch))
            value.backward()
        for parameter in list(sums):
            parameter.grad = sums.pop(parameter)
        optimizer.step()
        optimizer.zero_grad()


def traced(made: torch.nn.Module, settings: dict[str, Any]) -> TraceSession:
    ids = torch.empty(settings["batch"], settings["length"], dtype=torch.int64, device="meta")
    is_trained = settings["work"] == "training"
    batch = {"input_ids": ids, "labels": ids} if is_trained else {"input_ids": ids}
    cast = DTYPES.get(settings.get("autocast", ""))
    gpu = find_gpu(GPU)
    session = TraceSession(gpu, False)
    session.tape = tape = TapeInPlace(gpu.workspace_bytes)
    if is_trained:
        session.run(lambda: train(session, made, batch, settings, cast))
    else:
        session.run(lambda: estimating._steps(session, made, batch, False, settings.get("new_tokens", 0), None, None, cast, False, None))
    tape.put_sums_in_place()
    return session


def row_of(model: str, name: str, settings: dict[str, Any]) -> dict[str, Any]:
    made = made_model(model, settings)
    result = traced(made, settings).result()
    return {
        "model": model,
        "settings": name,
        "parameters": sum(parameter.numel() for parameter in made.parameters()),
        "allocated_bytes": result.peak_allocated_bytes,
        "reserved_bytes": result.peak_reserved_bytes,
        "phase": result.phase,
    }


def print_tape(name: str) -> None:
    """One line for each allocation and free: the bytes, the phase and the operation that allocated them."""
    model, _, setting = name.partition("/")
    with contextlib.redirect_stdout(io.StringIO()):
        settings = settings_of(model)[setting]
        tape = traced(made_model(model, settings), settings).tape
    sizes: dict[int, int] = {}
    for number, size in zip(tape.ids, tape.sizes):
        if number > 0:
            sizes[number] = size
        sign = "+" if number > 0 else "-"
        print(sign, sizes[abs(number)], tape.phases[abs(number)], tape.operations[abs(number)])


def write(rows: dict[str, dict[str, Any]]) -> None:
    models = {}
    for model in MODELS:
        config = config_of(model)
        models[model] = MODELS[model][2] | {"model_type": config.model_type, "tie_word_embeddings": config.tie_word_embeddings}
    names = [f"{model}/{setting}" for model in MODELS for setting in settings_of(model)]
    content = {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__, "gpu": GPU},
        "models": models,
        "settings": SETTINGS | MORE_SETTINGS,
        "rows": [rows[name] for name in names if name in rows],
    }
    lines = json.dumps({key: value for key, value in content.items() if key != "rows"}, indent=1)[:-2]
    table = ",\n".join("  " + json.dumps(row) for row in content["rows"])
    TARGET.write_text(f'{lines},\n "rows": [\n{table}\n ]\n}}\n')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--tape")
    arguments = parser.parse_args()
    if arguments.tape:
        print_tape(arguments.tape)
        return
    known = json.loads(TARGET.read_text())["rows"] if TARGET.exists() else []
    rows = {f"{row['model']}/{row['settings']}": row for row in known}
    for model in MODELS:
        for name, settings in settings_of(model).items():
            full = f"{model}/{name}"
            if arguments.only not in full or full in IMPOSSIBLE or (full in rows and not arguments.again):
                continue
            try:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    rows[full] = row_of(model, name, settings)
            except Exception as error:  # A case that cannot be traced is told and left out.
                print(f"{full}: {type(error).__name__}: {str(error)[:200]}", flush=True)
                continue
            print(f"{full}: {rows[full]['allocated_bytes'] / 2**20:,.1f} MiB", flush=True)
            write(rows)
    write(rows)


if __name__ == "__main__":
    main()
