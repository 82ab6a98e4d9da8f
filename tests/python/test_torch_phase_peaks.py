"""The peak of GPU memory in each phase, with a made-up allocator: bounds that hold, and counters that stay the program's."""

import random
import sys

import pytest
from made_up_torch import MadeUpTorch

import nilometer
from nilometer._gpu_clock import GpuClock
from nilometer.profiling import TrainingTimer, _phase_peaks
from nilometer.profiling.timer import GpuSeconds


@pytest.fixture
def torch(monkeypatch):
    torch = MadeUpTorch(limit=1 << 40)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(GpuSeconds, "wait", lambda self: 0.001)
    return torch


def peaks(run):
    run.finish(0)
    phases = nilometer.read_run(run.path).summary()["phases"]
    return {phase["name"]: (phase.get("peak_at_least_bytes"), phase.get("peak_at_most_bytes")) for phase in phases}


def timed(timer, name, *changes):
    """A phase in which so many bytes are allocated, or freed where it is less than nothing."""
    with timer.phase(name):
        change(timer._torch, changes)


def change(torch, changes):
    for change in changes:
        torch.alloc(change) if change > 0 else torch.free(-change)


def test_a_phase_in_which_the_peak_rose_has_exactly_that_peak(torch, run):
    timer = TrainingTimer(0, run=run)
    timed(timer, "forward", 100, 50, -50)
    timed(timer, "backward", 300, -400)
    assert peaks(run) == {"forward": (150, 150), "backward": (400, 400)}


def test_a_phase_below_an_older_peak_has_bounds(torch, run):
    torch.alloc(1000)
    torch.free(900)
    timer = TrainingTimer(0, run=run)
    timed(timer, "forward", 300, -200)
    timed(timer, "only_allocates", 10, 20)
    timed(timer, "only_frees", -30)
    timed(timer, "churns", *[500, -500] * 10)
    assert peaks(run) == {"forward": (200, 400), "only_allocates": (230, 230), "only_frees": (230, 230), "churns": (200, 1000)}


def test_the_phase_of_the_highest_peak_is_known_however_often_it_is_repeated(torch, run):
    timer = TrainingTimer(0, run=run)
    for _ in range(3):
        timed(timer, "backward", 500, 200, -700)
    assert peaks(run) == {"backward": (700, 700)}


def test_the_true_peak_always_lies_within_the_bounds(torch, run):
    numbers = random.Random(5)
    for _ in range(500):
        before = torch.stats()["allocated_bytes"]["all"]
        began = _phase_peaks.PhasePeaks(torch, 0).look()
        true_peak = before["current"]
        resets = numbers.random() < 0.2
        for _ in range(numbers.randrange(8)):
            change(torch, [numbers.randrange(1, 1000)] if numbers.random() < 0.5 or torch.allocated < 1000 else [-numbers.randrange(1, 1000)])
            true_peak = max(true_peak, torch.allocated)
        bounds = _phase_peaks.peak_bounds(began, _phase_peaks.PhasePeaks(torch, 0).look())
        assert bounds is not None and bounds[0] <= true_peak <= bounds[1], bounds
        if resets:
            torch.reset_peak()


def test_a_peak_that_the_program_resets_within_a_phase_is_no_bound(torch, run):
    torch.alloc(1000)
    torch.free(1000)
    began = _phase_peaks.PhasePeaks(torch, 0).look()
    change(torch, [700, -700])
    torch.reset_peak()
    change(torch, [400, -400])
    ended = _phase_peaks.PhasePeaks(torch, 0).look()
    assert _phase_peaks.peak_bounds(began, ended) == (400, 1100)
    assert _phase_peaks.peak_bounds(began, ended._replace(ever_allocated=0)) is None
    assert _phase_peaks.peak_bounds(began, None) is None


def test_the_programs_own_peak_stays_as_it_is(torch, run):
    timer = TrainingTimer(0, run=run)
    timed(timer, "forward", 100, -100)
    timed(timer, "backward", 50)
    assert torch.resets == 0 and torch.peak == 100


def test_inner_phases_have_their_own_and_the_summary_has_all(torch, run):
    timer = TrainingTimer(0, run=run)
    with timer.phase("step"):
        timed(timer, "forward", 100)
        timed(timer, "backward", 100, -200)
    summary = timer.get_summary()
    found = {name: (phase["peak_at_least_bytes"], phase["peak_at_most_bytes"]) for name, phase in summary.items()}
    assert found == {"step": (200, 200), "step/forward": (100, 100), "step/backward": (200, 200)}


def test_looks_at_memory_stay_within_their_budget(torch, run, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(_phase_peaks.time, "perf_counter", lambda: now[0])
    looked = []

    def stats(device):
        looked.append(now[0])
        now[0] += 0.0001
        return torch.stats()

    torch.cuda.memory_stats_as_nested_dict = stats
    timer = TrainingTimer(0, run=run)
    for _ in range(1000):
        timed(timer, "forward")
        timed(timer, "backward")
        now[0] += 0.01
    # The first three times of both phases have two looks each; after that each phase may take 0.1 % of the time.
    assert 12 < len(looked) <= 12 + 2 * 0.001 * now[0] / 0.0001 + 4
    assert {phase["count"] for phase in timer.get_summary().values()} == {1000}, "every one is timed"


def test_an_allocator_that_tells_nothing_is_said_once_and_phases_are_timed(torch, run):
    def refuse(device):
        raise RuntimeError("another allocator is in use")

    torch.cuda.memory_stats_as_nested_dict = refuse
    timer = TrainingTimer(0, run=run)
    with pytest.warns(nilometer.NilometerWarning, match="the GPU memory of phases is not recorded: another allocator") as said:
        for _ in range(5):
            timed(timer, "forward")
    assert len(said) == 1
    assert peaks(run) == {"forward": (None, None)}


def test_the_clock_of_watch_stores_peaks_with_the_steps_that_they_stand_for(torch, run):
    clock = GpuClock(TrainingTimer(run=run), "cuda:0")
    began = clock.now()
    torch.alloc(100)
    middle = clock.now()
    change(torch, [400, -450])
    ended = clock.now()
    clock.store("forward", began, middle, 0, 1)
    clock.store("backward", middle, ended, 0, 7)
    clock.settle(True)
    assert peaks(run) == {"forward": (100, 100), "backward": (500, 500)}


def test_the_memory_of_the_loss_is_that_of_backward(torch, run):
    """The model's backward is seen when its output's gradient is there: the loss and its own backward lie before."""
    clock = GpuClock(TrainingTimer(run=run), "cuda:0")
    for _ in range(2):
        began = clock.now()
        torch.alloc(100)
        forward_ended = clock.now()
        change(torch, [300, -250])
        backward_began = clock.now()
        change(torch, [20, -170])
        clock.store("forward", began, forward_ended, 0, 1)
        clock.store("backward", backward_began, clock.now(), 0, 1)
    clock.settle(True)
    assert peaks(run) == {"forward": (100, 100), "backward": (400, 400)}


def test_show_prints_the_peaks(torch, run, nilo):
    torch.alloc(8 << 30)
    torch.free(8 << 30)
    timer = TrainingTimer(0, run=run)
    timed(timer, "forward", 2 << 30, 3 << 30, -(4 << 30))
    timed(timer, "backward", 9 << 30)
    run.finish(0)
    printed = nilo("show", run.path).stdout
    rows = {line.split()[0]: line for line in printed.splitlines() if line.strip().startswith(("forward", "backward", "NAME"))}
    assert "GPU PEAK" in rows["NAME"]
    assert "10.00 GiB" in rows["backward"] and "at least" not in rows["backward"]
    assert "at least 1.00 GiB" in rows["forward"]
