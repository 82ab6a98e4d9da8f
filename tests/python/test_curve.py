"""The recorded memory against the kernel's own account, in the shapes that training has."""

import subprocess

import pytest
from conftest import MIB, python


def test_a_command_too_short_to_sample_has_the_peak_that_the_kernel_tells(nilo):
    result = nilo("run", "--memory-log", "log.csv", "--", "true")
    assert "unknown" not in result.stderr.split("Peak Memory Usage:")[1].splitlines()[0]
    memory = nilo.show()["memory"]
    assert memory["peak_kind"] == "rusage" or memory["samples"] > 0
    assert 256 << 10 < memory["peak_bytes"] < 8 * MIB
    rows = (nilo.folder / "log.csv").read_text().splitlines()[1:]
    assert all(float(row.split(",")[1]) > 0 for row in rows), rows


def test_a_short_program_has_its_own_peak(nilo):
    """Between two samples, and less than the recorder itself takes."""
    nilo("run", "-q", "--", "perl", "-e", "$x = 'a' x 9_000_000")
    assert 9 * MIB < nilo.show()["memory"]["peak_bytes"] < 24 * MIB


def test_a_tree_never_has_less_than_its_largest_process(nilo):
    code = "import os; os.fork() or bytearray(b'x') * (90 << 20); os._exit(0)"
    nilo("run", "-q", "--interval", "0.5", "--", *python(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"))
    shown = nilo.show()
    assert shown["memory"]["peak_bytes"] >= max(process["peak_rss_bytes"] for process in shown["processes"])


def test_an_orphan_that_ends_between_two_samples_has_its_peak(nilo):
    program = "import resource; held = b'x' * (150 << 20); open('kib', 'w').write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))"
    (nilo.folder / "orphan.py").write_text(program)
    # The shell in between ends at once, so that the program is nobody's child but ours.
    nilo("run", "-q", "--interval", "5", "--", "sh", "-c", f"({python('')[0]} orphan.py &); while ! test -s kib; do sleep 0.02; done; sleep 0.2")
    assert nilo.show()["memory"]["peak_bytes"] >= int((nilo.folder / "kib").read_text()) << 10


def test_a_program_does_not_inherit_the_peak_of_the_one_that_started_it(nilo):
    """The kernel hands `ru_maxrss` on across exec; an orphan's account would be its starter's."""
    orphan = "import os, subprocess; b = bytearray(b'x') * (200 << 20); p = subprocess.Popen(['sleep', '1']); os._exit(0)"
    nilo("run", "-q", "--wait-all", "--interval", "0.05", "--", *python(orphan))
    sleeper = next(process for process in nilo.show()["processes"] if process["name"] == "sleep")
    assert sleeper["peak_rss_bytes"] < 20 * MIB


def test_files_made_earlier_in_the_cgroup_are_not_the_job(nilo, cgroup, tmp_path):
    """Their dentries and inodes stay charged to the cgroup, and its peak counts them."""
    for place in ("before", "meanwhile"):
        (tmp_path / place).mkdir()
    subprocess.run(python(files("before", 20_000)), cwd=tmp_path, check=True, preexec_fn=cgroup.enter)
    job = "b = bytearray(b'x') * (40 << 20)\n" + files("meanwhile", 20_000)
    nilo("run", "-q", "--interval", "0.05", "--", *python(job), preexec_fn=cgroup.enter)
    memory = nilo.show()["memory"]
    assert memory["peak_kind"] in ("vmhwm", "rusage", "sampled-rss")
    assert 40 * MIB < memory["peak_bytes"] < 60 * MIB


def files(place, count):
    return f"import os\nfor n in range({count}): os.close(os.open(f'{place}/{{n}}', os.O_CREAT))"


WORKERS = """
import os, time
data = bytearray(b'x') * (120 << 20)
for epoch in range(2):
    workers = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            batch = bytearray(b'y') * (8 << 20)
            time.sleep(2.5)
            os._exit(0)
        workers.append(pid)
    for pid in workers:
        os.waitpid(pid, 0)
    time.sleep(1)
"""


def test_workers_forked_for_each_epoch_add_what_they_allocate(nilo):
    """The second epoch as the first."""
    nilo("run", "-q", "--interval", "0.1", "--", *python(WORKERS))
    rows = [line.split(",") for line in nilo("export", "--format", "csv").stdout.splitlines()]
    header, rows = rows[0], rows[1:]
    column = {name: index for index, name in enumerate(header)}
    busy = [row for row in rows if row[column["processes"]] == "5"]
    # A sample may fall into the moment in which the program gives its memory back.
    end = float(rows[-1][0])
    quiet = [row for row in rows if row[column["processes"]] == "1" and 1 < float(row[0]) < end - 0.3]
    assert len(busy) > 20 and quiet

    def level(row):
        return float(row[column["memory_mb"]])

    # 120 of data, the interpreter, and 8 MB and some copies for each worker.
    settled = sorted(level(row) for row in busy)[len(busy) // 10: -len(busy) // 10]
    assert 160 < settled[0] and settled[-1] < 190, (settled[0], settled[-1])
    assert all(125 < level(row) < 145 for row in quiet)
    shown = nilo.show()
    assert shown["memory"]["peak_bytes"] < 195 * MIB
    # The parent has the data, each worker its batch and its copies.
    added = [process["peak_added_bytes"] for process in shown["processes"]]
    assert added[0] > 125 * MIB and all(7 * MIB < worker < 30 * MIB for worker in added[1:]), added


MONITORED = """
import nilometer
from nilometer.bpe import BPEWithMonitoring
bpe = BPEWithMonitoring(monitor_interval=3600)
before = nilometer.peak_rss()
bpe.train("words.txt", vocab_size=2000, verbose=False)
stats = bpe.get_memory_stats()
print(before / 2**20, nilometer.peak_rss() / 2**20, stats["peak_memory_mb"], stats["memory_growth_mb"], stats["initial_memory_mb"])
"""


CLIMB = """
import os, time

def looks():
    # The thread that samples is the one that started the job, the first.
    state = open(f'/proc/{os.getppid()}/status').read()
    return int(state.split('\\nvoluntary_ctxt_switches:')[1].split()[0])

def take(mib):
    held.append(bytearray(b'x') * (mib << 20))

def wait_for_a_look(seconds):
    before, begin = looks(), time.monotonic()
    while looks() < before + 2 and time.monotonic() < begin + seconds:
        time.sleep(0.002)

held = []
start, go = os.pipe(), os.pipe()
if os.fork() == 0:
    take(40)
    os.write(start[1], b'x')
    os.read(go[0], 1)
    os._exit(0)
os.read(start[0], 1)
take(40)
wait_for_a_look(5)
take(40)
wait_for_a_look(5)
for _ in range(5):
    take(16)
    wait_for_a_look(0.5)
held.clear()
os.write(go[1], b'x')
"""


CHURN = """
import os, time
data = bytearray(b'x') * (120 << 20)
workers = set()
for _ in range(48):
    while len(workers) >= 4:
        workers.discard(os.wait()[0])
    pid = os.fork()
    if pid == 0:
        for at in range(0, 24 << 20, 4096):
            data[at] = 2
        time.sleep(0.3)
        os._exit(0)
    workers.add(pid)
    time.sleep(0.04)
while workers:
    workers.discard(os.wait()[0])
"""


def test_workers_that_come_and_go_have_what_each_of_them_copied(nilo):
    """They copy while their relatives are measured, whose figures then have it too."""
    nilo("run", "-q", "--interval", "0.05", "--", *python(CHURN))
    processes = nilo.show("--all")["processes"]
    parent = min(processes, key=lambda process: process["started_secs"])
    workers = [process["peak_added_bytes"] / MIB for process in processes if process is not parent]
    assert len(workers) > 30
    # 24 MiB of data, and what an interpreter writes into.
    assert max(workers) < 24 * 1.2, sorted(workers)
    assert 120 <= parent["peak_added_bytes"] / MIB < 140


def test_a_tree_that_climbs_and_falls_between_two_samples_has_its_peak(nilo):
    """120 MiB where the tick saw it, 200 before the next one; the kernel has a mark for each process, and none for both."""
    nilo("run", "-q", "--interval", "3", "--", *python(CLIMB))
    assert nilo.show()["memory"]["peak_bytes"] > 190 * MIB


def test_the_peak_of_monitored_training_has_spikes_between_samples(folder):
    (folder / "words.txt").write_text("".join(f"word{n * 7919 % 1_000_003} " for n in range(1_000_000)))
    result = subprocess.run(python(MONITORED), capture_output=True, text=True, check=True, timeout=300)
    before, after, peak, growth, initial = map(float, result.stdout.split())
    assert after > before + 4, "training did not raise the peak of the process, so this proves nothing"
    assert peak >= after - 0.01
    assert growth == pytest.approx(peak - initial)
