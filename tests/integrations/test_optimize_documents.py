"""The examples of document 002 print what they promise, and its names are where it says."""

import doctest
import importlib
import json
import re
import runpy
import subprocess
import sys

import pytest
from conftest import ROOT, subprocess_environment

import nilometer
import nilometer._command
import nilometer.optimize

NAMES = [
    "MemoryOptimizationSystem",
    "MemoryOptimizationConfig",
    "TrainingMemoryOptimizer",
    "TrainingMemoryConfig",
    "quick_memory_optimization",
    "create_memory_optimized_config",
    "memory_efficient_decorator",
    "memory_efficient_context",
    "estimate_memory_requirements",
    "create_memory_efficient_config",
    "memory_efficient_training",
]


def run(command, folder, expect=0):
    environment = subprocess_environment(OMP_NUM_THREADS="1")
    done = subprocess.run([sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == expect, done.stdout + done.stderr
    return done


def test_every_name_is_importable_from_both_places():
    for name in NAMES:
        assert getattr(nilometer, name) is getattr(nilometer.optimize, name)
        assert name in dir(nilometer) and name in nilometer.optimize.__all__
    methods = {
        "MemoryOptimizationSystem": "optimize_memory_usage optimize_model_architecture optimize_training_pipeline get_comprehensive_report "
        "generate_optimization_recommendations export_optimization_report",
        "TrainingMemoryOptimizer": "optimize_training_loop get_optimization_report export_report",
    }
    for name, of_class in methods.items():
        assert all(callable(getattr(getattr(nilometer, name), method)) for method in of_class.split())


def test_the_four_examples_print_what_the_document_shows(tmp_path):
    out = run([str(ROOT / "examples/memory_optimization.py")], tmp_path).stdout
    saved = [float(figure) for figure in re.findall(r"^Memory saved: (\d+\.?\d*) MB$", out, re.M)]
    # What a checkpoint costs on this machine decides whether it pays.
    applied = re.search(r"^Optimizations applied: (.*)$", out, re.M)[1]
    assert len(saved) == 2 and (applied, saved[1] > 1) in [("['checkpoint plan']", True), ("[]", False)]
    assert 0 < float(re.search(r"^Current memory usage: (\d+\.\d)%$", out, re.M)[1]) < 100
    assert 0 < float(re.search(r"^Training completed with (\d+\.\d\d) GB memory usage$", out, re.M)[1]) < 10
    first, last = re.search(r"^Loss: (\d\.\d+) -> (\d\.\d+)$", out, re.M).groups()
    assert float(last) < 0.2 < float(first)
    assert out.count("CRITICAL: Memory usage is too high!\n") == 1 and "WARNING" not in out


def test_programmatic_usage_of_the_document(tmp_path):
    code = """
import json, torch
from nilometer.optimize import MemoryOptimizationConfig, MemoryOptimizationSystem

model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)) for _ in range(6)])
sample_input = torch.randn(256, 64)

# Create configuration
config = MemoryOptimizationConfig(
    max_memory_usage_gb=8.0,
    memory_warning_threshold=0.75,
    enable_memory_profiling=True
)

# Use memory optimization system
with MemoryOptimizationSystem(config) as optimizer:
    # Optimize model
    model_results = optimizer.optimize_model_architecture(model)

    # Optimize training pipeline
    training_results = optimizer.optimize_training_pipeline(model, sample_input)

    # Get comprehensive report
    report = optimizer.get_comprehensive_report()

    # Generate recommendations
    recommendations = optimizer.generate_optimization_recommendations()
    print(json.dumps([model_results, training_results, report, recommendations]))
"""
    model, training, report, recommendations = json.loads(run(["-c", code], tmp_path).stdout)
    assert "pass a sample" in model["note"] and model["memory_saved_mb"] == 0
    assert set(training["optimizations_applied"]) <= {"checkpoint plan", "bfloat16 autocast"}
    assert (training["memory_saved_mb"] > 0) == bool(training["optimizations_applied"])
    assert training["batch_size"]["largest"] > 256
    assert report["model"]["parameter_count"] == 6 * (64 * 256 * 2 + 256 + 64) and report["recommendations"] == recommendations


def test_the_module_passes_its_arguments_on_to_the_command(monkeypatch):
    given = []
    monkeypatch.setattr(nilometer._command, "run", given.append)
    arguments = ["--mode", "quick", "--config", "settings.json", "--report", "report.md"]
    monkeypatch.setattr(sys, "argv", ["nilometer.optimize", *arguments])
    runpy.run_module("nilometer.optimize", run_name="__main__")
    assert given == [["optimize", *arguments]]


MODULES = """
    config live_facts report_files batches.sample_inputs host.cleanup host.housekeeping measuring.level_trace
    model.estimate model.parameter_storage model.segments system.efficient system.optimization_system training.optimizer
"""


@pytest.mark.parametrize("module", MODULES.split())
def test_the_examples_of_a_module_are_right(module):
    found = doctest.testmod(importlib.import_module(f"nilometer.optimize.{module}"))
    assert found.attempted > 0 and found.failed == 0
