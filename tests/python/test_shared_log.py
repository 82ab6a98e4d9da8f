"""What `nilo run` says while the job writes to the same log."""

import resource

from conftest import MIB, python

LIMIT = 512 * MIB
BAR = " 50%|#####     |"
# The job redraws its bar without ever ending the line, until the alert has come.
JOB = f"""
import os, sys, time
sys.stderr.write({BAR!r}); sys.stderr.flush()
size = int(open('/proc/self/statm').read().split()[0]) * os.sysconf('SC_PAGE_SIZE')
held = bytearray(b'x') * (int({LIMIT} * 0.93) - size)
for _ in range(3000):
    if os.path.exists('seen'):
        break
    time.sleep(0.01)
"""


def test_an_alert_begins_on_a_line_of_its_own(nilo):
    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))

    result = nilo("run", "--interval", "0.02", "--on-alert", "touch seen", "--", *python(JOB), preexec_fn=limited)
    assert (nilo.folder / "seen").exists(), result.stderr
    assert BAR in result.stderr
    before_summary = result.stderr.partition("=" * 20)[0]
    said = [line for line in before_summary.split("\n") if "warning: " in line or "critical: " in line]
    assert said and all(line.startswith(("warning: ", "critical: ")) for line in said), result.stderr


PRINTS_BAR = f"import sys; sys.stderr.write({BAR!r}); sys.stderr.flush()"


def test_the_summary_begins_on_a_line_of_its_own_in_a_pipe(nilo):
    result = nilo("run", "--", *python(PRINTS_BAR))
    assert result.stderr.startswith(BAR + "\n=="), result.stderr


def test_the_summary_begins_on_a_line_of_its_own_in_a_file(nilo):
    for job, before in ((PRINTS_BAR, BAR + "\n"), ("print('done')", "done\n"), ("pass", "")):
        path = nilo.folder / "log"
        with path.open("w") as log:
            nilo("run", "--", *python(job), stdout=log, stderr=log)
        assert path.read_text().startswith(before + "=="), path.read_text()
