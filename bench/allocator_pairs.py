"""Programs whose GPU memory is recorded twice on a real GPU: as PyTorch's allocator does by default, and with another setting.

    python3 bench/allocator_pairs.py --out FOLDER [NAME...]

FOLDER gets, for each program and setting, the allocator's snapshot (`NAME.SETTING.pickle.gz`, without stacks) and `pairs.json`
with the peaks that were really measured. What `nilo snapshot whatif` predicts from the default's snapshot is compared with these.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import pathlib
import pickle
import random
import subprocess
import sys

SETTINGS = {
    "default": "",
    "expandable": "expandable_segments:True",
    "split128": "max_split_size_mb:128",
}
MIB = 1 << 20


def language_model(torch, width=512, layers=6, vocabulary=8192):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(vocabulary, width)
            block = torch.nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, dropout=0.0)
            self.blocks = torch.nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
            self.head = torch.nn.Linear(width, vocabulary)

        def forward(self, tokens):
            return self.head(self.blocks(self.embed(tokens)))

    return Model().cuda()


def train(torch, model, batches, autocast=False, accumulate=1, checkpoint=False):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    for number, (batch, length) in enumerate(batches, 1):
        tokens = torch.randint(0, 8192, (batch, length), device="cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            if checkpoint:
                logits = torch.utils.checkpoint.checkpoint(model, tokens, use_reentrant=False)
            else:
                logits = model(tokens)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())
        loss.backward()
        if number % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)


def lengths(count, low=64, high=768):
    return [random.randrange(low, high) for _ in range(count)]


def varying_lengths(torch):
    train(torch, language_model(torch), [(8, length) for length in lengths(40)])


def varying_lengths_bf16(torch):
    train(torch, language_model(torch), [(8, length) for length in lengths(40)], autocast=True)


def growing_batch(torch):
    train(torch, language_model(torch), [(batch, 256) for batch in range(2, 34)])


def accumulation(torch):
    train(torch, language_model(torch, vocabulary=8192), [(4, length) for length in lengths(48, 128, 1024)], accumulate=4)


def checkpointed(torch):
    train(torch, language_model(torch, layers=8), [(8, length) for length in lengths(24)], checkpoint=True)


def train_and_evaluate(torch):
    model = language_model(torch)
    for _ in range(4):
        train(torch, model, [(8, 256)] * 4)
        with torch.no_grad():
            model(torch.randint(0, 8192, (48, 333), device="cuda")).softmax(-1)


def images_of_many_sizes(torch):
    layers = [torch.nn.Conv2d(3 if n == 0 else 64, 64, 3, padding=1) for n in range(6)]
    model = torch.nn.Sequential(*[part for layer in layers for part in (layer, torch.nn.ReLU())]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
    for _ in range(30):
        size = random.randrange(96, 384, 16)
        model(torch.randn(8, 3, size, size, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def key_value_cache(torch):
    caches = [torch.zeros(4, 16, 128, 128, device="cuda", dtype=torch.bfloat16) for _ in range(32)]
    for _ in range(200):
        for place, cache in enumerate(caches):
            new = torch.zeros(4, 16, 1, 128, device="cuda", dtype=torch.bfloat16)
            caches[place] = torch.cat([cache, new], dim=2)


def random_sizes(torch):
    held = []
    for _ in range(4000):
        if len(held) > 60 or (held and random.random() < 0.45):
            del held[random.randrange(len(held))]
        held.append(torch.empty(int(2 ** random.uniform(9, 27.5)), device="cuda", dtype=torch.uint8))


def two_streams(torch):
    side = torch.cuda.Stream()
    kept = []
    for step in range(300):
        a = torch.empty(random.randrange(1, 64) * MIB // 2, device="cuda", dtype=torch.uint8)
        with torch.cuda.stream(side):
            b = torch.empty(random.randrange(1, 64) * MIB // 2, device="cuda", dtype=torch.uint8)
            b.zero_()
        a.record_stream(side)
        kept = [*kept[-5:], a if step % 2 else b]
        del a, b


PROGRAMS = {
    program.__name__: program
    for program in (
        varying_lengths, varying_lengths_bf16, growing_batch, accumulation, checkpointed, train_and_evaluate,
        images_of_many_sizes, key_value_cache, random_sizes, two_streams,
    )
}


def record(name: str, path: pathlib.Path) -> dict:
    import torch
    import torch.utils.checkpoint

    random.seed(name)
    torch.manual_seed(0)
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=2_000_000)
    PROGRAMS[name](torch)
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    snapshot = torch.cuda.memory._snapshot()
    with gzip.open(path, "wb", 6) as file:
        pickle.dump(snapshot, file)
    return {
        "peak_allocated_bytes": stats["allocated_bytes.all.peak"],
        "peak_reserved_bytes": stats["reserved_bytes.all.peak"],
        "reserved_bytes": stats["reserved_bytes.all.current"],
        "events": sum(len(trace) for trace in snapshot["device_traces"]),
        "torch": torch.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", choices=[*PROGRAMS, []])
    options = parser.parse_args()
    if options.one:
        print(json.dumps(record(options.one, options.out)))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    pairs: dict = {}
    for name in options.names or PROGRAMS:
        for setting, configuration in SETTINGS.items():
            path = options.out / f"{name}.{setting}.pickle.gz"
            environment = os.environ | {"PYTORCH_CUDA_ALLOC_CONF": configuration}
            command = [sys.executable, __file__, "--out", str(path), "--one", name]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode:
                print(f"{name} {setting}: {done.stderr[-800:]}", file=sys.stderr)
                continue
            measured = json.loads(done.stdout.splitlines()[-1])
            pairs.setdefault(name, {})[setting] = measured
            print(f"{name:32} {setting:10} reserved {measured['peak_reserved_bytes'] / MIB:9.1f} MiB"
                  f" allocated {measured['peak_allocated_bytes'] / MIB:9.1f} MiB events {measured['events']}", flush=True)
    (options.out / "pairs.json").write_text(json.dumps(pairs, indent=1))


if __name__ == "__main__":
    main()
