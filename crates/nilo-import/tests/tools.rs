//! Real files of real tools, and of our own.
//!
//! `testdata/` was made with psrecord 1.4, memory_profiler 0.61, nvidia-smi 580.159 on an H200, a training loop that keeps
//! every eighth graph on the same GPU, and nilo itself.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use nilo_import::{Import, ImportOptions, JobEnd, MemorySeries, SourceFormat, read_file};

const MIB: f64 = 1048576.0;

fn import(name: &str) -> Import {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(name);
    read_file(&path, &ImportOptions::default()).unwrap()
}

fn peak_mib(track: &MemorySeries<'_>) -> f64 {
    (track.used.max().unwrap().1 / MIB * 10.0).round() / 10.0
}

fn names(tracks: &[MemorySeries<'_>]) -> Vec<String> {
    tracks.iter().map(|track| track.name.clone()).collect()
}

#[test]
fn psrecord_in_both_formats() {
    for (name, format, column, peak) in [
        ("psrecord.log", SourceFormat::Psrecord, "Real (MB)", 342.3),
        (
            "psrecord-io.log",
            SourceFormat::Psrecord,
            "Real (MB)",
            342.3,
        ),
        ("psrecord.csv", SourceFormat::PsrecordCsv, "mem_real", 342.3),
    ] {
        let import = import(name);
        assert_eq!(import.format, format, "{name}");
        let tracks = import.tracks();
        assert_eq!(names(&tracks), [column], "{name}");
        assert!(
            (peak_mib(&tracks[0]) - peak).abs() < 3.0,
            "{name}: {}",
            peak_mib(&tracks[0])
        );
        assert!(import.warnings.is_empty(), "{:?}", import.warnings);
        assert!(*tracks[0].used.times.last().unwrap() > 2_000_000_000);
    }
}

#[test]
fn mprof_with_children() {
    let import = import("mprof-children-multiprocess.dat");
    assert_eq!(import.format, SourceFormat::Mprof);
    assert_eq!(import.command.as_deref(), Some("python job.py"));
    assert_eq!(
        import.started_unix_nanos.unwrap() / 1_000_000_000,
        1_794_753_122
    );
    let tracks = import.tracks();
    assert_eq!(
        names(&tracks),
        ["memory", "child 20258 memory", "child 20260 memory"]
    );
    assert_eq!(peak_mib(&tracks[0]), 338.9);
    assert_eq!(peak_mib(&tracks[1]), 117.2);
    assert_eq!(
        (tracks[0].used.times.len(), tracks[1].used.times.len()),
        (25, 8)
    );
    // Children have the clock of the whole file.
    assert!(tracks[1].used.times[0] > 1_300_000_000);
}

#[test]
fn mprof_that_begins_with_a_function() {
    let import = import("mprof-functions.dat");
    assert_eq!(import.command.as_deref(), Some("python3 prof.py"));
    let tracks = import.tracks();
    assert_eq!(tracks.len(), 1);
    assert_eq!(tracks[0].used.times.len(), 15);
    assert_eq!(tracks[0].used.times[0], 0);
    assert_eq!(import.dropped.total(), 0);
}

#[test]
fn nvidia_smi_has_a_track_for_each_gpu_with_its_size() {
    let first = import("nvidia-smi.csv");
    assert_eq!(first.format, SourceFormat::NvidiaSmi);
    let tracks = first.tracks();
    assert_eq!(names(&tracks), ["gpu 0 memory.used [MiB]"]);
    assert_eq!(tracks[0].used.values[0], 877.0 * MIB);
    assert_eq!(tracks[0].limit.unwrap().values[0], 143_771.0 * MIB);
    assert_eq!(tracks[0].used.times[1], 253_000_000);
    let plain = import("nvidia-smi-nounits.csv");
    assert_eq!(names(&plain.tracks()), ["memory.used [MiB]"]);
    assert_eq!(plain.tracks()[0].used.values[0], 877.0 * MIB);
    let processes = import("nvidia-smi-processes.csv");
    assert_eq!(
        names(&processes.tracks()),
        ["process 500 used_gpu_memory [MiB]"]
    );
}

#[test]
fn a_gpu_trace_has_what_is_allocated_inside_of_what_is_reserved() {
    let import = import("gpu-trace.csv");
    assert_eq!(import.format, SourceFormat::Csv);
    let tracks = import.tracks();
    assert_eq!(names(&tracks), ["reserved", "nvml_process", "host_rss"]);
    assert_eq!(tracks[0].used.values[0], 373_293_056.0);
    assert_eq!(tracks[0].held.unwrap().values[0], 328_534_016.0);
    assert!(tracks[1].held.is_none() && tracks[2].held.is_none());
    assert_eq!(tracks[0].used.times[0], 10_879_600_000);
    assert_eq!(tracks[0].steps.unwrap()[0], 0);
    assert_eq!(tracks[0].table.phases.at(0), Some("init"));
    assert_eq!(tracks[0].table.phases.at(1), Some("forward"));
    assert!(import.warnings.is_empty());
}

#[test]
fn our_own_memory_log() {
    let import = import("memory-log.csv");
    assert_eq!(import.format, SourceFormat::MemoryLog);
    assert_eq!(names(&import.tracks()), ["memory_mb"]);
}

#[test]
fn our_own_export_has_the_limit_of_the_cgroup() {
    let wide = import("export.csv");
    assert_eq!(wide.format, SourceFormat::Export);
    let tracks = wide.tracks();
    assert_eq!(
        names(&tracks),
        ["memory_mb", "rss_mb", "cgroup_working_set_mb"]
    );
    assert!(tracks.iter().all(|track| track.limit.is_some()));
    assert_eq!(tracks[0].limit.unwrap().last(), Some(600.0 * MIB));
}

#[test]
fn the_long_export_says_the_same_as_the_wide_one() {
    let (wide, long) = (import("export.csv"), import("export-long.csv"));
    assert_eq!(long.format, SourceFormat::LongExport);
    let (wide, long) = (wide.tracks(), long.tracks());
    let tree: Vec<&MemorySeries<'_>> = long
        .iter()
        .filter(|track| track.name.starts_with("tree "))
        .collect();
    assert_eq!(tree[0].name, "tree memory_bytes");
    assert_eq!(tree[0].used.times.len(), wide[0].used.times.len());
    for (exact, rounded) in tree[0].used.values.iter().zip(wide[0].used.values) {
        assert!((exact - rounded).abs() <= 0.005 * MIB + 1.0);
    }
    let cgroup = long
        .iter()
        .find(|track| track.name.ends_with("working_set_bytes"))
        .unwrap();
    assert_eq!(cgroup.limit.unwrap().last(), Some(600.0 * MIB));
}

/// A table with a fall at its end, read.
fn read_text(text: &str) -> Import {
    nilo_import::read(text.as_bytes(), &ImportOptions::default()).unwrap()
}

#[test]
fn our_own_files_tell_of_the_end_of_the_job() {
    assert_eq!(import("export.csv").job_end, JobEnd::WithFile);
    assert_eq!(import("memory-log.csv").job_end, JobEnd::WithFile);
    assert_eq!(import("export-long.csv").job_end, JobEnd::Marked(None));
    assert_eq!(import("gpu-trace.csv").job_end, JobEnd::NotTold);

    let wide = "timestamp_seconds,memory_mb,cpu_percent,marks,ending\n0.0,900,0,,\n";
    let ended = format!("{wide}0.1,700,0,,1\n0.2,300,0,,1\n");
    assert_eq!(read_text(wide).job_end, JobEnd::Marked(None));
    assert_eq!(read_text(&ended).job_end, JobEnd::Marked(Some(100_000_000)));

    let long = "time_seconds,table,column,step,value,writer\n0.0,tree,memory_bytes,,900,a\n";
    let ended = format!("{long}0.1,run,ending,,1,\n");
    assert_eq!(read_text(&ended).job_end, JobEnd::Marked(Some(100_000_000)));

    // A column of this name in a file of another tool is that tool's own.
    let other = read_text("t_s,rss_mb,ending\n0,900,1\n");
    assert_eq!(other.job_end, JobEnd::NotTold);
}
