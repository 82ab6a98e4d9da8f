//! What the memory of a GPU was made of at the job's peak, a line for each part.

use std::io::Write;

use nilo_analysis::gpu_account::GpuAccount;
use nilo_analysis::gpus::GpuSummary;
use nilo_sample::units::{format_bytes, format_duration};

/// Writes the accounts; nothing where there are none. `gpus` have the peaks, which may be higher than what could be accounted for.
pub(crate) fn write_gpu_accounts(
    out: &mut dyn Write,
    accounts: &[GpuAccount],
    gpus: &[GpuSummary],
) -> std::io::Result<()> {
    for account in accounts {
        writeln!(
            out,
            "GPU {} {} (after {}), {} used:",
            account.index,
            moment(account, gpus),
            format_duration((account.secs * 1e9) as u64),
            format_bytes(account.used_bytes as f64)
        )?;
        for (bytes, what) in parts(account) {
            writeln!(out, "  {:>11}  {what}", format_bytes(bytes as f64))?;
        }
    }
    Ok(())
}

fn moment(account: &GpuAccount, gpus: &[GpuSummary]) -> &'static str {
    let gpu = gpus.iter().find(|gpu| gpu.index == account.index);
    let job = account.job_rest_bytes.map(|rest| {
        let torch = account.torch_allocated_bytes + account.torch_cached_bytes;
        rest + torch
    });
    let peak = gpu.and_then(|gpu| match job {
        Some(_) => gpu.peak_job_bytes,
        None => gpu.peak_used_bytes,
    });
    match (job.unwrap_or(account.used_bytes) == peak.unwrap_or(0), job) {
        (true, Some(_)) => "at the job's peak",
        (true, None) => "at its peak",
        (false, _) => "at the highest sample with PyTorch statistics",
    }
}

fn parts(account: &GpuAccount) -> impl Iterator<Item = (u64, &'static str)> {
    let parts = [
        (Some(account.torch_allocated_bytes), "PyTorch tensors"),
        (
            Some(account.torch_cached_bytes),
            "PyTorch cache (reserved, not in tensors)",
        ),
        (
            account.job_rest_bytes,
            "rest of the job (CUDA contexts, libraries, NCCL)",
        ),
        (account.others_bytes, "other processes and the driver"),
        (
            account.unexplained_bytes,
            "unexplained: the driver does not report the job's share",
        ),
    ];
    parts
        .into_iter()
        .filter_map(|(bytes, what)| Some((bytes?, what)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_not_known_has_no_line() {
        let account = GpuAccount {
            index: 2,
            secs: 90.0,
            used_bytes: 7 << 30,
            torch_allocated_bytes: 3 << 30,
            torch_cached_bytes: 1 << 30,
            job_rest_bytes: None,
            others_bytes: None,
            unexplained_bytes: Some(3 << 30),
        };
        let mut out = Vec::new();
        let gpu = GpuSummary {
            index: 2,
            peak_used_bytes: Some(7 << 30),
            ..GpuSummary::default()
        };
        write_gpu_accounts(&mut out, &[account], &[gpu]).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "GPU 2 at its peak (after 1m 30s), 7.00 GiB used:\n\
             \u{20}    3.00 GiB  PyTorch tensors\n\
             \u{20}    1.00 GiB  PyTorch cache (reserved, not in tensors)\n\
             \u{20}    3.00 GiB  unexplained: the driver does not report the job's share\n"
        );
    }

    #[test]
    fn a_level_below_the_peak_is_not_called_the_peak() {
        let account = GpuAccount {
            index: 0,
            secs: 1.0,
            used_bytes: 100,
            torch_allocated_bytes: 50,
            torch_cached_bytes: 10,
            job_rest_bytes: Some(20),
            others_bytes: Some(20),
            unexplained_bytes: None,
        };
        let gpu = |peak_job_bytes| GpuSummary {
            peak_job_bytes: Some(peak_job_bytes),
            ..GpuSummary::default()
        };
        assert_eq!(moment(&account, &[gpu(80)]), "at the job's peak");
        let below = "at the highest sample with PyTorch statistics";
        assert_eq!(moment(&account, &[gpu(90)]), below);
    }
}
