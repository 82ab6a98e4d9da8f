"""Writes crates/nilo-model/testdata/traced_encoders.json: what traces of BERT, ViT, T5 and Whisper take, against which the dry run in Rust is tested.

Needs PyTorch, transformers, peft and nilometer. A row that the file already has is kept, unless `--again` is given.

    python tools/fit/trace_encoders.py                  # all models and settings
    python tools/fit/trace_encoders.py --only t5/       # those whose name, model/settings, has this in it
    python tools/fit/trace_encoders.py --tape bert/amp  # prints every allocation of one case instead
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import torch
import transformers
from nilometer.fit import estimating
from nilometer.fit.gpus import find_gpu
from nilometer.fit.inputs import made_batch
from nilometer.fit.tracing import TraceSession
from trace_cases import DTYPES, GPU, TapeInPlace, train

TARGET = Path(__file__).resolve().parents[2] / "crates/nilo-model/testdata/traced_encoders.json"

BERT = {"hidden_size": 768, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 30522}
VIT = {"hidden_size": 768, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 3072, "num_labels": 1000}
T5 = {"d_model": 768, "num_layers": 4, "num_decoder_layers": 5, "num_heads": 12, "d_kv": 64, "d_ff": 3072, "vocab_size": 32128, "decoder_start_token_id": 0}
WHISPER = {
    **{"d_model": 512, "encoder_layers": 4, "decoder_layers": 3, "encoder_attention_heads": 8, "decoder_attention_heads": 8},
    **{"encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "vocab_size": 51865},
}
# The class of the model and of its configuration, and the configuration.
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertForMaskedLM", "BertConfig", BERT),
    "bert-relu": ("BertForMaskedLM", "BertConfig", BERT | {"hidden_act": "relu", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}),
    "bert-classes": ("BertForSequenceClassification", "BertConfig", BERT | {"num_labels": 5}),
    "vit": ("ViTForImageClassification", "ViTConfig", VIT),
    "vit-dropout": (
        "ViTForImageClassification",
        "ViTConfig",
        VIT | {"image_size": 384, "patch_size": 32, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "qkv_bias": False},
    ),
    "t5": ("T5ForConditionalGeneration", "T5Config", T5),
    "t5-gated": ("T5ForConditionalGeneration", "T5Config", T5 | {"d_ff": 2048, "feed_forward_proj": "gated-gelu", "scale_decoder_outputs": False}),
    "whisper": ("WhisperForConditionalGeneration", "WhisperConfig", WHISPER),
    "whisper-dropout": ("WhisperForConditionalGeneration", "WhisperConfig", WHISPER | {"dropout": 0.1, "activation_dropout": 0.1}),
}
TRAINING = {"work": "training", "batch": 8, "length": 256, "dtype": "fp32"}
INFERENCE = TRAINING | {"work": "inference"}
SETTINGS: dict[str, dict[str, Any]] = {
    "fp32": TRAINING,
    "bf16": TRAINING | {"dtype": "bf16"},
    "amp": TRAINING | {"autocast": "bf16"},
    "fp32-ckpt": TRAINING | {"checkpointing": True},
    "bf16-ckpt": TRAINING | {"dtype": "bf16", "checkpointing": True},
    "amp-ckpt": TRAINING | {"autocast": "bf16", "checkpointing": True},
    "sgd": TRAINING | {"optimizer": "sgd"},
    "bf16-eager": TRAINING | {"dtype": "bf16", "attention": "eager"},
    "amp-eager": TRAINING | {"autocast": "bf16", "attention": "eager"},
    "one": TRAINING | {"batch": 1},
    "infer": INFERENCE | {"dtype": "bf16"},
    "infer-fp32": INFERENCE,
    "infer-amp": INFERENCE | {"autocast": "bf16"},
}


class NoLayers:
    """Whisper drops a share of its layers at random: none, without a look at a value."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> bool:
        return False


def made_model(model: str, settings: dict[str, Any]) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """The model on the meta device, in its type, and a batch for it."""
    config = getattr(transformers, MODELS[model][1])(**MODELS[model][2])
    config._attn_implementation = settings.get("attention", "sdpa")
    is_trained = settings["work"] == "training"
    batch, length = settings["batch"], settings["length"]
    dtype = DTYPES[settings["dtype"]]
    with torch.device("meta"):
        made = getattr(transformers, MODELS[model][0])(config).to(dtype)
        if config.model_type == "whisper":
            made.model.encoder.layerdrop = made.model.decoder.layerdrop = NoLayers()
            sound = torch.empty(batch, config.num_mel_bins, 2 * config.max_source_positions, dtype=dtype)
            ids = torch.empty(batch, length, dtype=torch.int64)
            return made, {"input_features": sound, "labels" if is_trained else "decoder_input_ids": ids}
        inputs = made_batch(made, batch, length, is_trained)
        if config.model_type == "t5" and not is_trained:
            inputs["decoder_input_ids"] = inputs["input_ids"]
        return made, inputs


def traced(model: str, settings: dict[str, Any]) -> tuple[TraceSession, int]:
    """A trace whose sums of gradients are in place, and how many weights the model has."""
    made, batch = made_model(model, settings)
    cast = DTYPES.get(settings.get("autocast", ""))
    gpu = find_gpu(GPU)
    session = TraceSession(gpu, False)
    session.tape = tape = TapeInPlace(gpu.workspace_bytes)
    if settings["work"] == "training":
        session.run(lambda: train(session, made, batch, settings, cast))
    else:
        session.run(lambda: estimating._steps(session, made, batch, False, 0, None, None, cast, False, None))
    tape.put_sums_in_place()
    return session, sum(parameter.numel() for parameter in made.parameters())


def row_of(model: str, name: str) -> dict[str, Any]:
    session, parameters = traced(model, SETTINGS[name])
    result = session.result()
    return {
        "model": model,
        "settings": name,
        "parameters": parameters,
        "allocated_bytes": result.peak_allocated_bytes,
        "reserved_bytes": result.peak_reserved_bytes,
        "phase": result.phase,
    }


def print_tape(name: str) -> None:
    """One line for each allocation and free: the bytes, the phase and the operation that allocated them."""
    model, _, settings = name.partition("/")
    with contextlib.redirect_stdout(io.StringIO()):
        tape = traced(model, SETTINGS[settings])[0].tape
    sizes: dict[int, int] = {}
    for number, size in zip(tape.ids, tape.sizes):
        if number > 0:
            sizes[number] = size
        print("+" if number > 0 else "-", sizes[abs(number)], tape.phases[abs(number)], tape.operations[abs(number)])


def write(rows: dict[str, dict[str, Any]]) -> None:
    types = {model: getattr(transformers, config).model_type for model, (_, config, _) in MODELS.items()}
    content = {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "gpu": GPU},
        "models": {model: {"model_type": types[model], "architectures": [name]} | values for model, (name, _, values) in MODELS.items()},
        "settings": SETTINGS,
    }
    names = [f"{model}/{settings}" for model in MODELS for settings in SETTINGS]
    table = ",\n".join("  " + json.dumps(rows[name]) for name in names if name in rows)
    TARGET.write_text(f'{json.dumps(content, indent=1)[:-2]},\n "rows": [\n{table}\n ]\n}}\n')


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
        for name in SETTINGS:
            full = f"{model}/{name}"
            if arguments.only not in full or (full in rows and not arguments.again):
                continue
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                rows[full] = row_of(model, name)
            print(f"{full}: {rows[full]['allocated_bytes'] / 2**20:,.1f} MiB", flush=True)
    write(rows)


if __name__ == "__main__":
    main()
