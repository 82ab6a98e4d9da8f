"""wandb in offline mode, without system metrics, console capture, code and machine details.

The release has no reader of its local file, so the records are counted here: a LevelDB log of protocol buffers.
"""

import struct
from pathlib import Path

from session import NAMES, Session

FILE_HEAD_BYTES = 7
BLOCK_BYTES = 32 << 10
RECORD_HEAD = struct.Struct("<IHB")  # checksum, length, part
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def load():
    import wandb

    return wandb


def begin(wandb, folder: str) -> Session:
    quiet = wandb.Settings(
        console="off", disable_git=True, save_code=False, silent=True, x_disable_meta=True, x_disable_stats=True
    )
    run = wandb.init(project="bench", dir=folder, mode="offline", settings=quiet)
    return Session(run.log, run.finish)


def readable_steps(folder: str) -> int:
    from wandb.proto.wandb_internal_pb2 import Record

    steps = 0
    for path in Path(folder).glob("wandb/offline-run-*/*.wandb"):
        for body in records(path.read_bytes()):
            record = Record.FromString(body)
            if record.WhichOneof("record_type") == "history":
                found = {item.key or "/".join(item.nested_key) for item in record.history.item}
                steps += found.issuperset(NAMES)
    return steps


def records(file: bytes):
    """The bodies of the records that are whole; a torn one ends the reading."""
    at, parts = FILE_HEAD_BYTES, b""
    while True:
        left_in_block = BLOCK_BYTES - at % BLOCK_BYTES
        if left_in_block < RECORD_HEAD.size:
            at += left_in_block
        if at + RECORD_HEAD.size > len(file):
            return
        _, length, part = RECORD_HEAD.unpack_from(file, at)
        at += RECORD_HEAD.size
        if part not in (WHOLE, FIRST, MIDDLE, LAST) or at + length > len(file):
            return
        body = file[at : at + length]
        at += length
        parts = body if part in (WHOLE, FIRST) else parts + body
        if part in (WHOLE, LAST):
            yield parts
