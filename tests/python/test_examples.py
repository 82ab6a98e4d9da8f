"""The programs in examples/ run as they are and print what they promise."""

import json
import pathlib
import re
import subprocess
import sys

import pytest
from package import QUIET

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
# They need dask and torch, and are run with these in tests/integrations.
ELSEWHERE = {"dask_bpe.py", "memory_optimization.py"}


def run_example(name, folder, *arguments, **environment):
    environment = QUIET | {"NILO_STRICT": "1", "NILO_NVML": ""} | environment
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result


def test_every_example_is_tested():
    tested = set(re.findall(r'run_example\("(\w+\.py)"', pathlib.Path(__file__).read_text()))
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested | ELSEWHERE


def test_tokenizer_memory(tmp_path):
    out = run_example("tokenizer_memory.py", tmp_path).stdout
    for line in ("Initial memory usage: ", "Started memory monitoring (interval: 0.05s)", "Stopped memory monitoring. Peak memory: "):
        assert line in out
    assert re.search(r"^  900 tokens: peak \d+\.\d MB, growth \+\d", out, re.M)
    logs = sorted(path.name for path in tmp_path.glob("memory_log_*.csv"))
    assert logs == ["memory_log_300.csv", "memory_log_400.csv", "memory_log_600.csv", "memory_log_900.csv"]
    assert (tmp_path / "memory_log_400.csv").read_text().startswith("timestamp_seconds,memory_mb,cpu_percent\n0.0")


def test_memory_debugging(tmp_path):
    out = run_example("memory_debugging.py", tmp_path).stdout
    assert re.search(r"^host: \d+\.\d+ % used, \d+ samples, (increasing|stable)$", out, re.M)
    assert "GPUs: 0\n" in out
    assert "most objects kept: Record (+20000)\n" in out
    assert set(json.loads((tmp_path / "memory_report.json").read_text())) == {"timestamp", "devices", "summary"}
    assert re.search(r"^host memory: (low|moderate|high|critical) risk at ", out, re.M)


def test_memory_debugging_in_debug_mode_logs_every_look(tmp_path):
    err = run_example("memory_debugging.py", tmp_path, DEBUG="1").stderr
    assert "DEBUG:nilometer.memory:MemoryProfiler: monitoring every 0.05 s" in err
    assert re.search(r"DEBUG:nilometer.memory:OOMDetector: host memory: \d+\.\d MiB of \d+\.\d MiB", err)


def test_profiling_and_metrics(tmp_path):
    out = run_example("profiling_and_metrics.py", tmp_path).stdout
    assert "15 iterations of " in out and "loss: 15 values" in out
    assert "slowest part: `data` takes " in out and "num_workers" in out
    last = json.loads((tmp_path / "profiling_epoch2.json").read_text())
    # Three evaluations of 0.1 s and fifteen loads of 6 ms lie outside.
    assert last["throughput"]["outside_sec"] > 0.25
    rate = last["throughput"]["samples_per_sec"]
    assert rate == pytest.approx(8 / last["timing"]["iteration"]["mean_sec"], rel=0.2)
    assert len(list((tmp_path / "logs").glob("verifier_epoch*.json"))) == 3


def test_peak_and_batch_time(tmp_path):
    result = run_example("peak_and_batch_time.py", tmp_path)
    assert re.search(r"^seconds for 20 batches: \[[\d.e-]+, [\d.e-]+, [\d.e-]+\]$", result.stdout, re.M)
    assert re.search(r"^peak memory: \d+\.\d MiB \(getrusage: ", result.stdout, re.M)
    lines = [line for line in result.stderr.splitlines() if line.startswith("batch ")]
    assert [line.split(",")[0] for line in lines] == ["batch 20", "batch 40", "batch 60"]
    assert lines[1].split(",")[1].startswith(" last 20 in ")


def test_gpu_memory_without_a_gpu(tmp_path):
    out = run_example("gpu_memory.py", tmp_path).stdout
    assert "measuring host memory\n" in out
    used = [float(gb) for gb in re.findall(r"^step \d: (\d+\.\d+) GB of host memory$", out, re.M)]
    assert len(used) == 5 and used[4] - used[0] > 0.2
    assert "allocated" not in out
    assert "grew by more than 0.2 GB: True\n" in out


def test_rl_metrics(tmp_path):
    out = run_example("rl_metrics.py", tmp_path).stdout
    assert re.search(r"^mean reward: 0\.\d\d lately, KL 0\.038$", out, re.M)
    assert "over the last 20" in out and "verifier: " in out


def test_run_memory_optimization(tmp_path):
    out = run_example("run_memory_optimization.py", tmp_path, "--mode", "full", "--report", "report.md", "--", sys.executable, "-c", "print('trained')").stdout
    assert out.startswith("trained\n")
    assert (tmp_path / "report.md").read_text().startswith("# Memory optimization of ")
    (tmp_path / "settings.json").write_text('{"max_memory_usage_gb": 0.001}')
    for mode in ("training", "quick"):
        out = run_example("run_memory_optimization.py", tmp_path, "--mode", mode, "--config", "settings.json").stdout
        assert ("Use less memory, or allow the program more" in out) == (mode == "quick"), out
