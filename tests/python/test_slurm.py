"""A run in a Slurm job: it knows its job, and `nilo request` explains what sacct says of it."""

import json


SACCT = """\
JobID|State|ReqMem|NNodes|MaxRSS|AllocTRES|TRESUsageInMax
4711|COMPLETED|32G|1||billing=8,cpu=8,gres/gpu=2,gres/gpu:a100=2,mem=32G,node=1|
4711.batch|COMPLETED||1|1024K|cpu=8,gres/gpu=2,mem=32G,node=1|cpu=00:56:24,energy=0,fs/disk=350130624578,gres/gpumem=38888M,gres/gpuutil=100,mem=10372780K,pages=3465,vmem=10194376K
4712|COMPLETED|32G|1||billing=8,cpu=8,mem=32G,node=1|
4712.batch|COMPLETED||1|1024K|cpu=8,mem=32G,node=1|cpu=00:00:01,energy=0,fs/disk=1,mem=1024K,pages=0,vmem=0
"""


def test_a_run_knows_its_slurm_job_and_what_sacct_says_of_its_gpus(nilo):
    for number in ("4711", "4712"):
        environment = {"SLURM_JOB_ID": number, "SLURM_STEP_ID": "4294967291"}
        assert nilo("run", "-q", "--name", f"job-{number}", "--", "sleep", "0.3", extra_env=environment).returncode == 0
    assert nilo.show("job-4711")["slurm"] == {"job": "4711", "step": None}
    recorded = json.loads((nilo.run_folder() / "run.json").read_text())
    assert recorded["slurm"] == {"job_id": "4712"}
    (nilo.folder / "sacct.txt").write_text(SACCT)
    # In a job the last run of this job is meant, not the last of all.
    text = nilo("request", "--sacct", "sacct.txt", extra_env={"SLURM_JOB_ID": "4711"}).stdout
    assert "  4711.batch (job-4711)\n" in text
    assert "Slurm saw 37.98 GiB of GPU memory and a utilization of 100 % at most; the run recorded none" in text
    answer = json.loads(nilo("request", "job-4711", "--sacct", "sacct.txt", "--format", "json").stdout)
    (account,) = answer["slurm_account"]
    assert (account["gpus"], account["max_gpu_memory_bytes"]) == (2, 38888 << 20)
    text = nilo("request", "--sacct", "sacct.txt").stdout
    assert "  4712.batch (job-4712)\n" in text and "GPU" not in text.split("Slurm accounting:")[1]
