//! Results in words: a line on the screen, a CSV of moments, the page of `docs/benchmarks`.

use std::fmt::Write;

use crate::compare::JobComparison;

const MIB: f64 = 1048576.0;

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// One job in one line.
pub fn line(result: &JobComparison) -> String {
    format!(
        "{:<14} {:>4} stable moments of {:>4}   p95 {:>8}   worst {:>8}   peak {:>+7.2} %   recorder {:.2} % of a core{}",
        result.job,
        result.stable().count(),
        result.moments.len(),
        percent(result.error_at(0.95)),
        percent(result.error_at(1.0)),
        100.0 * result.peak_error(),
        result.recorder_percent,
        if result.meets_goals() {
            ""
        } else {
            "   NOT REACHED"
        },
    )
}

/// Every moment as CSV.
pub fn moments(results: &[JobComparison]) -> String {
    let mut text = "job,seconds,processes,truth_mib,recorded_mib,error,stable,samples\n".to_owned();
    for result in results {
        for moment in &result.moments {
            let _ = writeln!(
                text,
                "{},{:.2},{},{:.2},{:.2},{:.4},{},{}",
                result.job,
                moment.nanos as f64 / 1e9,
                moment.processes,
                moment.truth_bytes as f64 / MIB,
                moment.recorded_bytes / MIB,
                moment.error(),
                u8::from(moment.stable),
                moment.samples,
            );
        }
    }
    text
}

/// `Linux 6.18.44`
fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = release.trim().split('-').next().unwrap_or_default();
    format!("Linux {version}")
}

/// The page.
pub fn markdown(results: &[JobComparison]) -> String {
    let mut text = format!(
        "# Is the curve right?\n\n\
         Measured on {} by `make bench-truth` on {} cores, {}.\n\
         Real process trees are recorded with `nilo run` at 10 Hz.\n\
         Every half second the harness counts the distinct page frames that the tree holds, from `/proc/PID/pagemap` as root, while tree and recorder are frozen; that is the truth.\n\
         A moment is *stable* when neither the processes nor more than 0.5 % of the memory changed in the second before, in which the recorder took at least six samples.\n\
         Goals, at stable moments: p95 of the error at most 3 %, worst at most 10 %; the recorded peak never more than 1 % below the largest count, and of *epochs*, *shared-memory*, *growing-workers* and *double-maps*, which have no spikes, never more than 5 % above it.\n\n\
         | job | stable moments | p95 error | worst error | peak against the largest count | recorder, % of a core | goals |\n\
         | --- | --: | --: | --: | --: | --: | --- |\n",
        jiff::Zoned::now().date(),
        std::thread::available_parallelism().map_or(0, usize::from),
        kernel(),
    );
    for result in results {
        let _ = writeln!(
            text,
            "| {} | {} of {} | {} | {} | {:+.2} % | {:.2} | {} |",
            result.job,
            result.stable().count(),
            result.moments.len(),
            percent(result.error_at(0.95)),
            percent(result.error_at(1.0)),
            100.0 * result.peak_error(),
            result.recorder_percent,
            if result.meets_goals() {
                "reached"
            } else {
                "**not reached**"
            },
        );
    }
    text.push_str(
        "\n- *epochs*: a parent with 400 MB forks six workers for each of three epochs, as a DataLoader does.\n\
         - *forks N*: a parent with 12 MB forks N children, each of which writes 160 inherited pages.\n\
         - *shared-file*: two unrelated processes of the job map one 400 MB file; after four seconds a stranger maps it too.\n\
         - *shared-memory*: a parent that has filled 160 MB of shared memory forks 24 workers for each of two epochs, which read it, beside a busy loop for each core.\n\
         - *short-workers*: a parent with 300 MB forks six workers at a time; each rewrites 30 MB of what it inherited, and ends after 0.12 to 0.25 s.\n\
         - *late-copies*: a parent with 300 MB forks six workers for each of four epochs; each rewrites 25 MB (45 in the last epoch) of what it inherited after two seconds, and ends 0.6 s later.\n\
         - *growing-workers*: a parent with 100 MB in huge pages forks 300 workers; each takes 1 MB in small pages.\n\
         - *double-maps*: a process maps a file of 200 MB twice, then memory of 100 MB without a file twice, and forks four workers that read all of it.\n\
         - *random S*: up to 24 processes fork, exit, exec, write, free, map shared files and shared memory, use huge pages and threads, in the order of seed S, in bursts of 1.5 s with rests of 3.5 s.\n\
         - *busy S*: the same for a quarter of the time, beside a busy loop for each core.\n\n\
         The largest count is the largest of two a second, so a recorded peak above it may be real: something taller stood between two counts.\n\n\
         Before the memory of a tree was counted in distinct pages (2026-11-15), this harness found worst errors of 74 % (epochs), 94 % (forks 300) and 41 to 54 % (random).\n",
    );
    text
}
