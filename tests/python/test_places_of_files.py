"""Where Python writes files: what a link leads to is replaced, devices and pipes stay what they are."""

import os
import stat

import numpy as np
import pytest
from conftest import unavailable

import nilometer
from nilometer import MemoryDebugger, RecordedRun, ReplayBuffer, TrainingLogger
from nilometer.optimize import MemoryOptimizationConfig, MemoryOptimizationSystem, write_config_template
from nilometer.profiling import ComprehensiveProfiler


def settings(path):
    MemoryOptimizationConfig().to_json(path)


def report(path):
    MemoryOptimizationSystem(MemoryOptimizationConfig(enable_memory_profiling=False)).export_optimization_report(path)


def debugger(path):
    MemoryDebugger().generate_report(path)


def profile(path):
    ComprehensiveProfiler().export_to_json(path)


def metrics(path):
    logger = TrainingLogger(experiment_name="experiment", log_dir=path.parent / "logs")
    logger.export_all(path)


def exported_run(path):
    run = nilometer.init(name="exported")
    run.log({"loss": 1.0})
    folder = run.path
    nilometer.finish()
    RecordedRun(folder).export(path, "json")


TEXT = [settings, write_config_template, report, debugger, profile, metrics, exported_run]


def buffer():
    made = ReplayBuffer(10, ((2,), np.float32), ((1,), np.int64))
    made.add([1, 2], [3, 4], 0, 1.0, False)
    return made


@pytest.fixture(autouse=True)
def own_folder(tmp_path_factory, monkeypatch):
    """Runs go there."""
    monkeypatch.delenv("NILO_RUN_DIR", raising=False)
    monkeypatch.chdir(tmp_path_factory.mktemp("runs"))
    yield
    nilometer.finish()


@pytest.fixture
def null(tmp_path):
    """A device that takes everything, at a place of its own."""
    path = tmp_path / "null.json"
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        path.write_text("")
    except PermissionError:
        unavailable("only root makes devices, and not in every container")
    return path


@pytest.mark.parametrize("write", TEXT, ids=lambda write: write.__name__)
def test_a_device_is_written_as_it_is(null, write):
    write(null)
    assert stat.S_ISCHR(null.lstat().st_mode) and null.lstat().st_rdev == os.makedev(1, 3)
    assert [path.name for path in null.parent.iterdir() if path.name != "logs"] == ["null.json"]


@pytest.mark.parametrize("write", TEXT, ids=lambda write: write.__name__)
def test_what_a_link_leads_to_is_replaced(tmp_path, write):
    target, link = tmp_path / "inner" / "target.json", tmp_path / "link.json"
    target.parent.mkdir()
    target.write_text("old")
    link.symlink_to("inner/target.json")
    write(link)
    assert link.is_symlink() and len(target.read_text()) > 3
    assert [path.name for path in target.parent.iterdir()] == ["target.json"]


def test_a_pipe_is_written_into(tmp_path):
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    # Open for both ends, so that neither the writer nor this test waits where nothing is written.
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        settings(pipe)
        assert pipe.is_fifo()
        assert b"max_memory_usage_gb" in os.read(end, 1 << 16)
    finally:
        os.close(end)


def test_a_buffer_is_no_thing_for_a_device_or_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="cannot save the buffer: .*pipe: not a file"):
        buffer().save(pipe)
    assert pipe.is_fifo() and [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_buffer_replaces_what_a_link_leads_to(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to("target")
    buffer().save(link)
    assert link.is_symlink() and len(ReplayBuffer.load(target)) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]


def test_an_earlier_experiment_behind_a_link_is_kept(tmp_path):
    target, link = tmp_path / "elsewhere.json", tmp_path / "logs" / "experiment_metrics.json"
    link.parent.mkdir()
    target.write_text("earlier")
    link.symlink_to(target)
    with pytest.warns(UserWarning, match="is kept as experiment_metrics.1.json"):
        TrainingLogger(experiment_name="experiment", log_dir=link.parent).export_all()
    assert link.is_symlink() and "earlier" not in target.read_text()
    assert (link.parent / "experiment_metrics.1.json").read_text() == "earlier"
