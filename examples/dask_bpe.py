"""A tokenizer trained by a Dask cluster: workers count the shards, one process learns from all the counts.

    pip install nilometer distributed
    python examples/dask_bpe.py 'shards/*.jsonl.zst' --jsonl text --vocab-size 32000 -o tokenizer

The result is byte for byte that of `nilo bpe train` over all the shards: counts add up.
Only counts travel, through a folder that all workers see; on a cluster of many machines, give one on shared storage
with --counts, and the address of its scheduler with --scheduler.
"""

import argparse
import contextlib
import glob
import os
import pathlib
import sys
import tempfile

from distributed import Client, LocalCluster, as_completed

from nilometer import bpe


def count_shard(shard, output, options):
    """Runs on a worker. A shard that a worker died over is counted again: a file of counts is there whole or not at all."""
    totals = bpe.count(shard, output, threads=1, progress=False, **options)
    return output, totals["text_bytes"], os.getpid()


def count_shards(client, shards, folder, options):
    """Counts each shard on some worker and gives the files of counts."""
    outputs = [str(folder / f"{number:05}.counts") for number in range(len(shards))]
    # What was counted an hour ago may be another text: nothing is taken from a result of the same name.
    futures = client.map(count_shard, shards, outputs, options=options, pure=False)
    workers, text_bytes = set(), 0
    for done, future in enumerate(as_completed(futures), start=1):
        _, shard_bytes, worker = future.result()
        workers.add(worker)
        text_bytes += shard_bytes
        print(f"\rcounted {done} of {len(shards)} shards, {text_bytes / 2**20:.1f} MiB", end="", file=sys.stderr)
    print(f", in {len(workers)} processes", file=sys.stderr)
    return outputs


@contextlib.contextmanager
def connected(arguments):
    """To the cluster that runs already, or to one of processes on this machine, reachable from it alone."""
    if arguments.scheduler:
        with Client(arguments.scheduler) as client:
            yield client
        return
    workers = {"n_workers": arguments.workers, "threads_per_worker": 1, "processes": True}
    # Port 0 is any free one, also for Dask's own page: several clusters may run here.
    local = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**workers, **local) as cluster, Client(cluster) as client:
        yield client


def parse():
    parser = argparse.ArgumentParser(description="Train a tokenizer on a Dask cluster.")
    parser.add_argument("shards", help="a pattern such as 'shards/*.txt'")
    parser.add_argument("--vocab-size", type=int, required=True)
    parser.add_argument("--special-token", action="append", default=[], dest="special_tokens")
    parser.add_argument("--jsonl", metavar="FIELD", help="shards are JSON lines; the text is in this field")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a cluster that runs already")
    parser.add_argument("--counts", type=pathlib.Path, help="folder for the counts, seen by all workers")
    parser.add_argument("-o", "--output", default="tokenizer")
    return parser.parse_args()


def main():
    arguments = parse()
    shards = sorted(os.path.abspath(shard) for shard in glob.glob(arguments.shards))
    if not shards:
        sys.exit(f"no shard matches {arguments.shards}")
    options = {"special_tokens": arguments.special_tokens, "jsonl": arguments.jsonl}
    with tempfile.TemporaryDirectory() as temporary, connected(arguments) as client:
        folder = (arguments.counts or pathlib.Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        counts = count_shards(client, shards, folder, options)
        tokenizer = bpe.BPE().train_from_counts(counts, arguments.vocab_size, arguments.special_tokens)
    for path in tokenizer.save(arguments.output):
        print(path)


# Workers are processes that import this file: without this line each would start a cluster of its own.
if __name__ == "__main__":
    main()
