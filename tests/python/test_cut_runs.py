"""A finished run of a Python program whose files were cut: `nilo verify` says so, wherever the cut is."""

import pytest
from package import only_run, run_program

import nilometer

PROGRAM = """
    import nilometer
    with nilometer.init(name="cut", memory=False) as run:
        for step in range(10):
            run.log({"loss": 1.0 / (step + 1)}, step=step)
"""
HEADER_BYTES = 128
# Commit word, checksum, table, time, step and one value.
ROW_BYTES = 8 + 12 + 8 + 8


@pytest.mark.parametrize("rows", [1, 3, 10])
def test_a_finished_run_that_was_cut_between_two_records_is_incomplete(nilo, folder, rows):
    run_program(PROGRAM, folder)
    assert nilo("verify").returncode == 0
    (stream,) = only_run(folder).glob("python-*.nilo")
    whole = stream.read_bytes()
    stream.write_bytes(whole[: len(whole) - rows * ROW_BYTES])
    assert len(nilometer.read_run("cut", dir=".nilo").summary()["metrics"][:1]) == (rows < 10)
    told = nilo("verify")
    assert told.returncode == 1 and f"{rows * ROW_BYTES} bytes at the end are missing" in told.stdout, told.stdout


@pytest.mark.parametrize("left", [0, HEADER_BYTES - 1])
def test_a_finished_run_whose_stream_was_emptied_is_incomplete(nilo, folder, left):
    run_program(PROGRAM, folder)
    (stream,) = only_run(folder).glob("python-*.nilo")
    stream.write_bytes(stream.read_bytes()[:left])
    told = nilo("verify")
    assert told.returncode == 1 and "the file ends within its header" in told.stdout, told.stdout
