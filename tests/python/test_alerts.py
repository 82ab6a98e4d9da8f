"""Alerts while a job runs: real limits, a real HTTP server, commands that do what commands do."""

import http.server
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading

import pytest
import trustme
from conftest import MIB, python

HOLD = """
import sys, time
held = []
for target, seconds in {steps}:
    while sum(map(len, held)) < target << 20:
        held.append(bytearray(b'x') * (4 << 20))
    del held[target // 4:]
    time.sleep(seconds)
"""
LIMIT = 512


def hold(*steps):
    """A program that holds (MiB, seconds) one after the other."""
    return python(HOLD.format(steps=list(steps)))


LEVELS = ("memory-warning", "memory-critical")


def levels(alerts):
    """The job's thresholds; what the machine's other users do is their business, and a job that grows in steps may look like a risk."""
    return [alert for alert in alerts if alert["resource"] == "job memory" and alert["kind"] in LEVELS]


def kinds(shown, raised=True):
    return [alert["kind"] for alert in levels(shown["alerts"]) if alert["raised"] == raised]


@pytest.fixture
def limited(cgroup):
    cgroup.limit(LIMIT * MIB)
    return cgroup


@pytest.fixture
def server():
    """A real HTTP server on loopback."""
    yield from serve("http")


@pytest.fixture
def https_server(tmp_path):
    """A real HTTPS server on loopback, whose certificate only `authority` vouches for."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    for served in serve("https", context):
        served.authority = tmp_path / "authority.pem"
        yield served


def serve(scheme, context=None):

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

    received = []
    release = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, self.headers["Content-Type"], json.loads(body)))
            if self.path == "/hangs":
                release.wait(120)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    served = Server(("127.0.0.1", 0), Handler)
    if context:
        served.socket = context.wrap_socket(served.socket, server_side=True)
    served.url = f"{scheme}://localhost:{served.server_port}"
    served.received = received
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield served
    release.set()
    served.shutdown()
    served.server_close()


def test_a_job_past_both_thresholds_raises_each_once(nilo, limited):
    result = nilo("run", "--", *hold((300, 2), (420, 3), (480, 3)), preexec_fn=limited.enter)
    assert result.returncode == 0
    shown = nilo.show()
    about_levels = levels(shown["alerts"])
    assert [(alert["kind"], alert["severity"]) for alert in about_levels] == [
        ("memory-warning", "warning"),
        ("memory-critical", "critical"),
    ]
    first = about_levels[0]
    assert first["resource"] == "job memory"
    assert first["limit_bytes"] == LIMIT * MIB
    assert 75 <= first["used_percent"] < 95
    assert first["used_bytes"] == pytest.approx(LIMIT * MIB * first["used_percent"] / 100, rel=0.01)
    assert first["time_nanos"] < about_levels[1]["time_nanos"] <= shown["duration_secs"] * 1e9
    assert first["recommendations"]
    assert "warning: job memory is at" in result.stderr and "critical: job memory is at" in result.stderr
    assert "critical: memory-critical" not in result.stderr, "the severity is said once"
    text = nilo("show").stdout
    assert "Alerts:" in text and "memory-critical: job memory" in text


def test_a_threshold_is_told_with_the_sample_that_crosses_it(nilo, limited):
    """A job that is full within two seconds: looks that come once a second would tell a dead one."""
    code = "import time\nx = []\nwhile True:\n    x.append(bytearray(b'x') * (8 << 20)); time.sleep(0.025)"
    nilo("run", "--quiet", "--interval", "0.02", "--", *python(code), preexec_fn=limited.enter)
    shown = nilo.show()
    assert shown["status"] == "oom-killed"
    [warning, critical] = levels(shown["alerts"])
    assert (warning["kind"], critical["kind"]) == ("memory-warning", "memory-critical")
    assert 75 <= warning["used_percent"] < 90, warning
    assert warning["time_nanos"] < critical["time_nanos"] < shown["duration_secs"] * 1e9


def test_a_job_below_the_thresholds_is_left_alone(nilo, limited):
    result = nilo("run", "--", *hold((200, 3)), preexec_fn=limited.enter)
    assert kinds(nilo.show()) == []
    assert "job memory" not in result.stderr


def test_a_peak_between_two_looks_is_seen(nilo, limited):
    assert nilo("run", "--interval", "0.02", "--", *hold((480, 0.3), (20, 1.5)), preexec_fn=limited.enter).returncode == 0
    assert kinds(nilo.show()) == ["memory-warning", "memory-critical"]


def test_spikes_are_told_with_the_time_of_the_sample_that_saw_them(nilo, limited):
    """Twice: the second comes when the job has been far from its limit for a while, with the thresholds of the first still raised."""
    code = """
import time
times = []
for mib in (420, 500):
    time.sleep(2.5)
    begin = time.monotonic_ns()
    held = b"x" * (mib << 20)
    time.sleep(0.6)
    times.append((begin, time.monotonic_ns()))
    del held
time.sleep(2.5)
print(times)
"""
    # One sample sees each, or two.
    result = nilo("run", "--quiet", "--interval", "0.5", "--", *python(code), preexec_fn=limited.enter)
    spikes = json.loads(result.stdout.replace("(", "[").replace(")", "]"))
    started = json.loads((nilo.run_folder() / "run.json").read_text())["started_monotonic_nanos"]
    alerts = levels(nilo.show()["alerts"])
    assert [alert["kind"] for alert in alerts] == ["memory-warning", "memory-critical"]
    for alert, (begin, end) in zip(alerts, spikes, strict=True):
        assert begin < started + alert["time_nanos"] <= end, (alert, begin - started, end - started)


def test_a_level_that_swings_around_the_threshold_alerts_once(nilo, limited):
    # 78 % and 60 % of the limit, program and page tables included.
    swings = [step for _ in range(6) for step in ((392, 1.2), (300, 1.2))]
    assert nilo("run", "--", *hold(*swings), preexec_fn=limited.enter).returncode == 0
    shown = nilo.show()
    assert kinds(shown).count("memory-warning") == 1
    assert kinds(shown, raised=False) == []


def test_the_command_gets_the_alert_as_json(nilo, limited):
    command = "cat >> got.jsonl; echo $NILO_RUN_DIR > where"
    result = nilo("run", "--on-alert", command, "--name", "hot", "--", *hold((480, 3)), preexec_fn=limited.enter)
    assert result.returncode == 0
    got = levels(json.loads(line) for line in (nilo.folder / "got.jsonl").read_text().splitlines())
    shown = nilo.show()
    assert [alert["kind"] for alert in got] == ["memory-warning", "memory-critical"]
    for alert, recorded in zip(got, levels(shown["alerts"])):
        assert alert["schema"] == "nilo.alert/1"
        assert (alert["run"], alert["name"]) == (shown["run"], "hot")
        assert alert["raised"] is True
        assert recorded.items() <= alert.items()
    where = (nilo.folder / "where").read_text().strip()
    assert where == got[0]["run_dir"] == str(nilo.run_folder())


def test_the_command_is_no_part_of_the_job(nilo, limited):
    """It is neither counted as the job's memory, nor waited for as one of its processes, nor taken for another job in the cgroup."""
    hog = f"exec {sys.executable} -c 'import time; held = bytearray(40 << 20); time.sleep(2)'"
    result = nilo("run", "--wait-all", "--on-alert", hog, "--", *hold((400, 4)), preexec_fn=limited.enter)
    assert result.returncode == 0
    shown = nilo.show()
    assert len(shown["processes"]) == 1
    assert shown["memory"]["cgroup_peak_bytes"] > 400 * MIB


def test_the_webhook_gets_the_same_json(nilo, limited, server):
    result = nilo("run", "--alert-webhook", server.url + "/alert", "--", *hold((480, 3)), preexec_fn=limited.enter)
    assert result.returncode == 0
    got = levels(body for _, _, body in server.received)
    assert [alert["kind"] for alert in got] == ["memory-warning", "memory-critical"]
    path, content_type, _ = server.received[0]
    assert (path, content_type, got[0]["schema"]) == ("/alert", "application/json", "nilo.alert/1")
    assert got[0]["limit_bytes"] == LIMIT * MIB


def test_an_encrypted_webhook_gets_it_if_its_certificate_is_trusted(nilo, limited, https_server):
    url = https_server.url + "/alert"
    trusted = {"SSL_CERT_FILE": str(https_server.authority)}
    result = nilo("run", "--alert-webhook", url, "--", *hold((480, 3)), preexec_fn=limited.enter, extra_env=trusted)
    assert result.returncode == 0 and "warning: the alert webhook" not in result.stderr
    got = levels(body for _, _, body in https_server.received)
    assert [alert["kind"] for alert in got] == ["memory-warning", "memory-critical"]


def test_an_encrypted_webhook_that_nobody_vouches_for_gets_nothing(nilo, limited, https_server):
    url = https_server.url + "/alert"
    result = nilo("run", "--alert-webhook", url, "--", *hold((480, 3)), preexec_fn=limited.enter)
    assert result.returncode == 0
    assert https_server.received == []
    assert "warning: the alert webhook" in result.stderr and url not in result.stderr


@pytest.mark.parametrize(
    "command, said",
    [
        ("exit 3", "exit status: 3"),
        ("/no/such/program", "exit status: 127"),
        ("kill -9 $$", "signal: 9"),
        ("while :; do sleep 1; done", None),
        ("trap '' TERM; while :; do sleep 1; done", None),
        ("exec 0<&-; yes | head -c 1000000", ""),
    ],
)
def test_a_command_in_trouble_disturbs_nobody(nilo, limited, command, said):
    result = nilo("run", "--on-alert", command, "--", *hold((480, 2.5)), preexec_fn=limited.enter, timeout=25)
    assert result.returncode == 0
    shown = nilo.show()
    assert shown["status"] == "exited"
    assert kinds(shown) == ["memory-warning", "memory-critical"]
    assert shown["recorder"]["dropped_samples"] == 0
    if said:
        assert result.stderr.count("warning: the alert command failed") == 1 and said in result.stderr


def test_a_command_in_trouble_does_not_change_the_status(nilo, limited):
    code = hold((400, 2.5))
    code[-1] += "\nsys.exit(7)"
    assert nilo("run", "--on-alert", "exit 1", "--", *code, preexec_fn=limited.enter).returncode == 7


@pytest.mark.parametrize("trouble", ["down", "hangs", "unknown host"])
def test_a_webhook_in_trouble_disturbs_nobody(nilo, limited, server, trouble):
    url = {
        "down": "http://127.0.0.1:9/x",
        "hangs": server.url + "/hangs",
        "unknown host": "http://no-such-host.invalid/x",
    }[trouble]
    result = nilo("run", "--alert-webhook", url, "--", *hold((480, 3)), preexec_fn=limited.enter, timeout=25)
    assert result.returncode == 0
    shown = nilo.show()
    assert shown["status"] == "exited" and kinds(shown) == ["memory-warning", "memory-critical"]
    assert shown["recorder"]["dropped_samples"] == 0
    if trouble == "hangs":
        assert server.received
    if trouble == "down":
        assert "warning: the alert webhook cannot be reached" in result.stderr
        assert "127.0.0.1:9/x" not in result.stderr


def test_the_signal_reaches_the_job(nilo, limited):
    code = python(
        "import signal\nsignal.signal(signal.SIGUSR2, lambda *_: print('told', flush=True))\n" + hold((400, 2.5))[-1]
    )
    result = nilo("run", "--alert-signal", "usr2", "--", *code, preexec_fn=limited.enter)
    assert result.returncode == 0
    shown = nilo.show()
    raised = [alert for alert in shown["alerts"] if alert["raised"]]
    assert kinds(shown) == ["memory-warning"]
    assert result.stdout == "told\n" * len(raised)


def test_watched_processes_are_watched_over_too(nilo, limited, job):
    target = job(*hold((480, 60)), preexec_fn=limited.enter)
    result = nilo("watch", "--pid", target.pid, "--interval", "0.1", "--duration", "4", "--on-alert", "cat >> got.jsonl")
    assert result.returncode == 0
    assert kinds(nilo.show()) == ["memory-warning", "memory-critical"]
    got = levels(json.loads(line) for line in (nilo.folder / "got.jsonl").read_text().splitlines())
    assert len(got) == 2
    assert target.poll() is None


def test_settings_come_from_the_file_and_flags_win(nilo, limited):
    (nilo.folder / "nilo.toml").write_text(
        '[alerts]\nmemory_warning = 0.3\nmemory_critical = 0.5\non_alert = "cat >> file"\nquiet = true\n'
    )
    assert nilo("trust").returncode == 0
    result = nilo("run", "--on-alert", "cat >> flag", "--", *hold((200, 2.5)), preexec_fn=limited.enter)
    assert kinds(nilo.show()) == ["memory-warning"]
    assert (nilo.folder / "flag").exists() and not (nilo.folder / "file").exists()
    # Only the summary speaks of it.
    assert "warning: memory-warning:" not in result.stderr and "memory-warning" in result.stderr


def test_alerts_can_be_switched_off(nilo, limited):
    assert nilo("run", "--no-alerts", "--", *hold((480, 2)), preexec_fn=limited.enter).returncode == 0
    assert nilo.show()["alerts"] == []


def test_a_quiet_run_records_and_says_nothing(nilo, limited):
    result = nilo("run", "--quiet", "--", *hold((400, 2.5)), preexec_fn=limited.enter)
    assert (result.returncode, result.stderr) == (0, "")
    assert kinds(nilo.show()) == ["memory-warning"]


@pytest.mark.parametrize(
    "table, sentence",
    [
        ("memory_warning = 75", "memory_warning = 75 is not a share of the limit"),
        ("gpu_critical = 0", "gpu_critical = 0 is not a share of the limit"),
        ("memory_warning = 0.95", "memory_warning = 0.95 lies above memory_critical = 0.9"),
        ("memory_warnings = 0.5", "unknown setting `memory_warnings`"),
        ('leak = "yes"', "invalid type"),
        ('signal = "USR9"', 'no signal is called "USR9"'),
        ('webhook = "example.org"', "not an http:// or https:// URL"),
    ],
)
def test_settings_that_cannot_be_meant_are_told_and_refused_where_they_were_asked_for(nilo, table, sentence):
    (nilo.folder / "nilo.toml").write_text(f"[alerts]\n{table}\n")
    found = nilo("run", "--quiet", "--", "true")
    assert found.returncode == 0 and found.stderr.count("warning:") == 1 and sentence in found.stderr
    result = nilo("run", "--", "touch", "started", extra_env={"NILO_CONFIG": "nilo.toml"})
    assert result.returncode == 2
    assert result.stderr.count("error:") == 1 and sentence in result.stderr and "hint:" in result.stderr
    assert not (nilo.folder / "started").exists()


@pytest.mark.parametrize(
    "flags, sentence",
    [
        (["--alert-signal", "NOPE"], 'no signal is called "NOPE"'),
        (["--alert-webhook", "ftp://x"], "not an http:// or https:// URL"),
    ],
)
def test_flags_that_cannot_be_meant_are_refused_before_the_command(nilo, flags, sentence):
    result = nilo("run", *flags, "--", "touch", "started")
    assert result.returncode == 2
    assert sentence in result.stderr and "hint:" in result.stderr
    assert not (nilo.folder / "started").exists()


def test_a_leak_is_foretold_before_the_kernel_kills(nilo, limited):
    """A plateau, then a steady growth that fills the limit in forty seconds."""
    code = """
import time
held = [bytearray(b'x') * (100 << 20)]
time.sleep(25)
while True:
    held.append(bytearray(b'x') * (1 << 20))
    time.sleep(0.1)
"""
    command = "cat >> got.jsonl"
    result = nilo("run", "--on-alert", command, "--", *python(code), preexec_fn=limited.enter, timeout=180)
    assert result.returncode == 128 + signal.SIGKILL
    assert limited.kills == 1
    shown = nilo.show()
    assert shown["status"] == "oom-killed"
    predicted = [alert for alert in shown["alerts"] if alert["kind"] == "oom-risk" and alert["resource"] == "job memory"]
    assert predicted, shown["alerts"]
    first = predicted[0]
    assert first["time_nanos"] < shown["oom"]["time_nanos"]
    assert first["seconds_left"] > 0 and 0 < first["confidence"] <= 1
    assert first["used_percent"] < 100
    got = [json.loads(line) for line in (nilo.folder / "got.jsonl").read_text().splitlines()]
    assert "oom-risk" in [alert["kind"] for alert in got]


def test_every_line_on_standard_error_is_written_in_one_piece(nilo, limited):
    """The job writes into the same pipe: what comes in pieces gets mixed with its lines. A socket of packets shows every write."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            process = nilo.start("run", "--live", "always", "--", *hold((300, 2), (480, 3)), stderr=theirs, preexec_fn=limited.enter)
        written = list(iter(lambda: ours.recv(1 << 16), b""))
    assert process.wait() == 0
    assert any(b"warning: job memory is at" in text for text in written)
    assert [text for text in written if not text.endswith(b"\n")] == []


def test_a_level_that_a_neighbour_has_its_part_in_is_told_of_their_cgroup(nilo, limited, job):
    held = "held = b'x' * (400 << 20); print('ready', flush=True); import time; time.sleep(120)"
    neighbour = job(*python(held), preexec_fn=limited.enter, stdout=subprocess.PIPE)
    assert neighbour.stdout.readline() == b"ready\n"
    result = nilo("run", "--", *hold((60, 3)), preexec_fn=limited.enter)
    assert re.search(
        r"the cgroup that this job shares is at \d+\.\d % of its limit \(.* of 512\.00 MiB\), above 75 %; the job holds \d+\.\d\d MiB of it\n",
        result.stderr,
    ), result.stderr
    assert "job memory is at" not in result.stderr
    judged = nilo("oom", "--threshold", "75").stdout
    assert re.search(r"Reason: .* is above the threshold of 75%.*; its processes hold \d\d(\.\d)? MiB of what its cgroup does", judged), judged
    assert re.search(r"^job memory: .*its cgroup at \d+\.\d% of 512 MiB, of which its processes hold \d\d(\.\d)? MiB", nilo("oom", "--threshold", "99").stdout, re.M)
