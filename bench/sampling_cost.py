"""What watching costs: the monitor's own CPU time at 10 samples a second, for one process and for a tree of twenty.

Every monitor runs for a short and for a long time.
The difference is the cost of sampling alone; what is left of the short run is the cost of starting.
A monitor that has to start the tree itself is charged for it, too: the tree reports its own CPU time, which is taken off.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nilo
import rivals
from page import Table, spread, times
from processes import BenchmarkFailed, run, scratch_folder, standing_tree, tree_command
from settings import Settings

SAMPLES_PER_SECOND = 10


@dataclass(frozen=True)
class Monitor:
    name: str
    attach: Callable[[int, int, int], list] | None = None  # pid, seconds, processes
    launch: Callable[[list], list] | None = None  # the command to be recorded


@dataclass(frozen=True)
class Cost:
    percent_of_core: float
    startup_ms: float
    short_cpu_secs: float
    long_cpu_secs: float


def monitors(settings: Settings) -> list[Monitor]:
    found = [
        Monitor("psrecord", attach=lambda pid, seconds, processes: rivals.psrecord_attach(pid, seconds, processes > 1)),
        Monitor("mprof", attach=lambda pid, seconds, processes: rivals.mprof_attach(pid, seconds, processes > 1)),
        Monitor("duct", launch=lambda command: rivals.duct_run(command, 1 / SAMPLES_PER_SECOND)),
    ]
    binary = settings.nilo
    if binary:
        found.insert(0, Monitor("nilo watch", attach=lambda pid, seconds, _: nilo.watch_command(binary, pid, seconds)))
        found.insert(1, Monitor("nilo run", launch=lambda command: nilo.run_command(binary, command)))
    return found


def measure(settings: Settings) -> Table:
    table = Table(
        "CPU time of the monitor at 10 Hz",
        {
            "monitor": "the tool; `nilo run` and `duct` start the tree, the others attach to it.",
            "processes": "size of the watched tree.",
            "% of a core": "CPU time of sampling alone, lowest to highest of all repetitions.",
            "× nilo watch": "the median of the column before, divided by that of `nilo watch`.",
            "start-up ms": "median CPU time of starting and ending the tool.",
            "CPU s, short": "median CPU time of the whole short run.",
            "CPU s, long": "median CPU time of the whole long run.",
        },
        notes=[
            f"The short run lasts {settings.effort.short_secs} s, the long one {settings.effort.long_secs} s.",
            f"Repetitions, in turns: {settings.effort.repetitions}.",
            "It is a difference of two runs: where starting varies more than sampling costs, it can come out below zero.",
            "Goal: at most 0.1 % of a core for nilo and 20 processes.",
        ],
    )
    for processes in (1, 20):
        costs = {monitor.name: [] for monitor in monitors(settings)}
        with standing_tree(processes) as pid:
            for _ in range(settings.effort.repetitions):
                for monitor in monitors(settings):
                    costs[monitor.name].append(cost(monitor, pid, processes, settings))
        ours = median_percent(costs.get("nilo watch"))
        for name, found in costs.items():
            table.rows.append([
                name, str(processes), spread([cost.percent_of_core for cost in found], 3),
                times(median_percent(found), ours),
                f"{statistics.median(cost.startup_ms for cost in found):.0f}",
                f"{statistics.median(cost.short_cpu_secs for cost in found):.3f}",
                f"{statistics.median(cost.long_cpu_secs for cost in found):.3f}",
            ])
    return table


def cost(monitor: Monitor, pid: int, processes: int, settings: Settings) -> Cost:
    short_wall, short_cpu = spent(monitor, pid, processes, settings.effort.short_secs)
    long_wall, long_cpu = spent(monitor, pid, processes, settings.effort.long_secs)
    share = (long_cpu - short_cpu) / (long_wall - short_wall)
    return Cost(share * 100, (short_cpu - share * short_wall) * 1e3, short_cpu, long_cpu)


def spent(monitor: Monitor, pid: int, processes: int, seconds: int) -> tuple[float, float]:
    """Wall and CPU seconds of one run of the monitor, without those of the tree."""
    with scratch_folder() as folder:
        if monitor.attach:
            used = run(monitor.attach(pid, seconds, processes), folder)
            tree_cpu_secs = 0.0
        else:
            report = folder / "tree-cpu-secs.txt"
            used = run(monitor.launch(tree_command(processes, seconds, report)), folder)
            tree_cpu_secs = float(report.read_text())
        check(monitor.name, used.exit_code, folder)
        return used.wall_secs, used.cpu_secs - tree_cpu_secs


def check(name: str, exit_code: int, folder: Path) -> None:
    if exit_code != 0:
        raise BenchmarkFailed(f"{name} ended with {exit_code}: {(folder / 'output.txt').read_text()[-500:]}")


def median_percent(costs: list[Cost] | None) -> float | None:
    return statistics.median(cost.percent_of_core for cost in costs) if costs else None
