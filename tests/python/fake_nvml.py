"""The fake driver of tests/fake-nvml: GPUs whose numbers a test, or the job that is recorded, makes up."""

import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[1] / "fake-nvml/fake_nvml.c"
SCENARIOS = SOURCE.parent / "scenarios"
GIB = 1 << 30

# What a job begins with: it tells the driver what to say, and waits until the recorder has heard it.
PRELUDE = '''
import os, pathlib, time
STATE = pathlib.Path(os.environ["FAKE_NVML"])
COUNT = STATE.with_name("readings")
GIB = 1 << 30

def gpu(used, uuid="GPU-a", busy=50):
    return f"gpu {uuid} {16 * GIB} {GIB} {used} {busy} Fake G16"

def process(bytes, uuid="GPU-a", pid=None):
    return f"process {uuid} {os.getpid() if pid is None else pid} {bytes}"

def say(*lines):
    draft = STATE.with_name("draft")
    draft.write_text("\\n".join([*lines, f"count {COUNT}"]))
    draft.replace(STATE)

def readings():
    return COUNT.stat().st_size if COUNT.exists() else 0

def heard(gpus=1):
    """A reading of a GPU takes two to four calls: a whole round has begun after this one, and another after that was taken."""
    enough = readings() + 12 * gpus
    while readings() < enough:
        time.sleep(0.02)
'''


def gpu_line(used, uuid="GPU-a", busy=50, total=16 * GIB):
    return f"gpu {uuid} {total} {GIB} {used} {busy} Fake G16"


class FakeDriver:
    """A driver's library in a folder of its own, with its file of numbers."""

    def __init__(self, folder, scenario=None):
        """`scenario` is a file of tests/fake-nvml/scenarios."""
        self.library = folder / "libnvidia-ml.so.1"
        self.state = folder / "gpus.txt"
        lines = [gpu_line(0)] if scenario is None else (SCENARIOS / scenario).read_text().splitlines()
        command = ["cc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", self.library, SOURCE, "-ldl"]
        if missing := [line.removeprefix("missing ") for line in lines if line.startswith("missing ")]:
            # Symbols that are hidden cannot be found, as if the driver were older.
            symbols = folder / "symbols"
            symbols.write_text(f"{{ global: *; local: {'; '.join(missing)}; }};")
            command.append(f"-Wl,--version-script={symbols}")
        subprocess.run(command, check=True)
        self.say(*lines)

    @property
    def environment(self):
        return {"NILO_NVML": str(self.library), "FAKE_NVML": str(self.state)}

    def say(self, *lines):
        draft = self.state.with_name("draft-of-test")
        draft.write_text("\n".join(lines))
        draft.replace(self.state)
