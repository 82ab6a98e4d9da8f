"""How much longer a command takes under a monitor: `true`, started many times under each, interleaved."""

import statistics

import nilo
import rivals
from page import Table
from processes import run, scratch_folder
from settings import Settings

COMMAND = ["/bin/true"]


def launchers(settings: Settings) -> dict[str, list]:
    found = {
        "true alone": COMMAND,
        "GNU time -v": rivals.gnu_time_run(COMMAND),
        "psrecord": rivals.psrecord_run(COMMAND),
        "mprof run": rivals.mprof_run(COMMAND),
        "duct": rivals.duct_run(COMMAND),
    }
    if settings.nilo:
        found["nilo run"] = [settings.nilo, "run", "--", *COMMAND]
        found["nilo run --quiet"] = nilo.run_command(settings.nilo, COMMAND)
    return found


def measure(settings: Settings) -> Table:
    walls = {name: [] for name in launchers(settings)}
    for _ in range(settings.effort.spawns):
        for name, command in launchers(settings).items():
            with scratch_folder() as folder:
                walls[name].append(run(command, folder).wall_secs * 1e3)
    alone = statistics.median(walls["true alone"])
    table = Table(
        "Time added to a command",
        {
            "command": "what was started; each was given `/bin/true`.",
            "median ms": "wall time from start to end.",
            "10th..90th percentile": "of the same.",
            "added ms": "median less that of `true` alone.",
        },
        notes=[f"{settings.effort.spawns} starts of each, interleaved.", "Goal: nilo adds at most 15 ms."],
    )
    for name, found in sorted(walls.items(), key=lambda item: statistics.median(item[1])):
        deciles = statistics.quantiles(found, n=10)
        median = statistics.median(found)
        table.rows.append([name, f"{median:.1f}", f"{deciles[0]:.1f}..{deciles[-1]:.1f}", f"{median - alone:.1f}"])
    return table
