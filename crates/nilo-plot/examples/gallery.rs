//! Draws one chart of each kind into a folder: `cargo run -p nilo-plot --example gallery -- FOLDER`.

mod synthetic;

use std::error::Error;
use std::path::PathBuf;

use nilo_plot::{Chart, ChartOptions, PeakMark, Theme, XAxisKind, compare_chart, memory_chart};
use nilo_sample::Event;
use synthetic::*;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "gallery".into()));
    std::fs::create_dir_all(&folder)?;
    for (name, chart) in charts() {
        std::fs::write(folder.join(format!("{name}.svg")), chart.to_svg())?;
        std::fs::write(folder.join(format!("{name}.png")), chart.to_png(2.0)?)?;
    }
    Ok(())
}

fn charts() -> Vec<(&'static str, Chart)> {
    let plain = ChartOptions::default();
    let training = training(0.88);
    let training_options = ChartOptions {
        peak: Some(PeakMark {
            bytes: (2.27 * GIB) as u64,
            time_nanos: Some(69 * SECOND + SECOND / 2),
            kind: "cgroup peak".into(),
        }),
        limit: Some(limit(3.0 * GIB)),
        ..plain.clone()
    };
    let dark = ChartOptions {
        theme: Theme::Dark,
        ..training_options.clone()
    };
    vec![
        ("training", memory_chart(&training, &training_options)),
        ("training-dark", memory_chart(&training, &dark)),
        ("spike", spike()),
        ("oom", oom_chart()),
        ("gap", gap()),
        ("marks", marks()),
        ("single", single()),
        ("empty", memory_chart(&empty("nothing was sampled"), &plain)),
        ("many", memory_chart(&many_processes(400), &plain)),
        ("names", names()),
        ("small", small()),
        ("compare", compare(&training)),
        ("compare-killed", compare_killed()),
        ("compare-limits", compare_limits()),
        ("charged", charged_chart()),
        ("ideographs", ideographs()),
        ("cpu", cpu()),
        ("million", million()),
        ("metrics", metrics(XAxisKind::Time)),
        ("metrics-by-step", metrics(XAxisKind::Steps)),
    ]
}

fn compare_limits() -> Chart {
    let runs = close_limits();
    let runs: Vec<_> = runs.iter().map(|(name, run)| (*name, run)).collect();
    compare_chart(&runs, &ChartOptions::default())
}

fn charged_chart() -> Chart {
    let recording = charged();
    let options = ChartOptions {
        limit: recording.description.limit.clone(),
        ..ChartOptions::default()
    };
    memory_chart(&recording, &options)
}

/// As a PNG with question marks.
fn ideographs() -> Chart {
    let options = ChartOptions {
        title: Some("訓練 größe → 한국".to_owned()),
        ..ChartOptions::default()
    };
    memory_chart(&training(0.88), &options)
}

fn spike() -> Chart {
    let mut recording = empty("a spike of 50 ms between two samples");
    let level = |t: f64| (310.0 + 12.0 * (t * 1.7).sin()) * MIB;
    add_tree(&mut recording, &curve(20.0, 2.0, level));
    let peak = PeakMark {
        bytes: (2.11 * GIB) as u64,
        time_nanos: Some(19 * SECOND + SECOND / 4),
        kind: "VmHWM".into(),
    };
    let options = ChartOptions {
        peak: Some(peak),
        limit: Some(limit(64.0 * GIB)),
        ..ChartOptions::default()
    };
    memory_chart(&recording, &options)
}

fn oom_chart() -> Chart {
    let options = ChartOptions {
        peak: Some(PeakMark {
            bytes: (3.99 * GIB) as u64,
            time_nanos: Some(3601 * SECOND),
            kind: "cgroup peak".into(),
        }),
        limit: Some(limit(4.0 * GIB)),
        ..ChartOptions::default()
    };
    memory_chart(&oom(), &options)
}

fn gap() -> Chart {
    let mut recording = empty("a laptop that slept");
    let points = curve(1200.0, 2.0, |t| (800.0 + 200.0 * (t / 60.0).sin()) * MIB);
    let awake = |(time, _): &(u64, f64)| !(400 * SECOND..640 * SECOND).contains(time);
    add_tree(
        &mut recording,
        &points.into_iter().filter(awake).collect::<Vec<_>>(),
    );
    let reason = "the machine slept".to_owned();
    let nanos = 240 * SECOND;
    add_event(&mut recording, 640 * SECOND, Event::Gap { nanos, reason });
    let peak = PeakMark {
        bytes: (1.1 * GIB) as u64,
        time_nanos: None,
        kind: "VmHWM".into(),
    };
    let options = ChartOptions {
        peak: Some(peak),
        ..ChartOptions::default()
    };
    memory_chart(&recording, &options)
}

fn marks() -> Chart {
    let mut recording = training(1.0);
    add_mark(&mut recording, 2.0, "load data");
    for epoch in 0..16 {
        let text = format!("epoch {epoch}");
        add_mark(&mut recording, 14.0 + 5.0 * f64::from(epoch), &text);
    }
    add_mark(
        &mut recording,
        90.0,
        "save the final checkpoint to /mnt/scratch/ada",
    );
    memory_chart(&recording, &ChartOptions::default())
}

fn single() -> Chart {
    let mut recording = empty("a command of one sample");
    add_tree(&mut recording, &[(0, 3.2 * MIB)]);
    memory_chart(&recording, &ChartOptions::default())
}

fn names() -> Chart {
    let mut recording = empty("<b>訓練</b> & \"🚀 run\" größer");
    let long = "a/very/long/path/to/a/python/interpreter ".repeat(20);
    let names = [
        "<script>alert(1)</script>",
        "学習ワーカー",
        long.as_str(),
        "",
    ];
    for (index, name) in names.into_iter().enumerate() {
        let size = (index + 1) as f64 * 100.0 * MIB;
        let points = curve(30.0, 10.0, |t| size * (1.0 + 0.1 * t.sin()));
        add_process(&mut recording, 300 + index as u32, name, &points);
    }
    sum_processes(&mut recording, &ticks(30.0, 10.0), 1.4);
    memory_chart(&recording, &ChartOptions::default())
}

fn small() -> Chart {
    let options = ChartOptions {
        width: 420,
        height: 260,
        limit: Some(limit(2.4 * GIB)),
        ..ChartOptions::default()
    };
    memory_chart(&training(1.0), &options)
}

/// Two runs with limits of their own, one of which reaches it.
fn compare_killed() -> Chart {
    let mut killed = oom();
    killed.description.limit = Some(limit(4.0 * GIB));
    let mut fine = empty("fine");
    let level = |t: f64| (900.0 + 200.0 * (t / 300.0).sin()) * MIB;
    add_tree(&mut fine, &curve(4000.0, 1.0, level));
    fine.description.limit = Some(limit(6.0 * GIB));
    let runs = [("leaky evaluation loop", &killed), ("fixed", &fine)];
    compare_chart(&runs, &ChartOptions::default())
}

/// Memory and processor time: four cores at work, with a pause every ten seconds.
fn cpu() -> Chart {
    let mut recording = training(0.88);
    let spent = |t: f64| {
        let (cycles, rest) = ((t / 10.0).floor(), t % 10.0);
        (cycles * 32.0 + 4.0 * rest.min(8.0)) * 1e9
    };
    for table in &mut recording.tables {
        if table.spec.subject == nilo_sample::Subject::Tree
            && let Some(column) = table.spec.column("cpu_nanos")
        {
            let times = table.times.iter().map(|time| *time as f64 / 1e9);
            table.columns[column] = times.map(spent).collect();
        }
    }
    memory_chart(&recording, &ChartOptions::default())
}

fn compare(training: &nilo_sample::Recording) -> Chart {
    let smaller = {
        let mut recording = empty("b16");
        let level =
            |t: f64| 120.0 * MIB + (t / 8.0).min(1.0) * 700.0 * MIB + (t % 3.0) * 90.0 * MIB;
        add_tree(&mut recording, &curve(120.0, 10.0, level));
        recording
    };
    let leaky = {
        let mut recording = empty("leak");
        add_tree(
            &mut recording,
            &curve(70.0, 10.0, |t| (300.0 + 22.0 * t) * MIB),
        );
        recording
    };
    let runs = [
        ("batch 32", training),
        ("batch 16", &smaller),
        ("batch 16, cache never emptied", &leaky),
    ];
    let options = ChartOptions {
        limit: Some(limit(3.0 * GIB)),
        ..ChartOptions::default()
    };
    compare_chart(&runs, &options)
}

/// A run that was resumed, with a loss that spikes and a gradient that is NaN once.
fn metrics(across: XAxisKind) -> Chart {
    let mut recording = training(0.88);
    add_mark(&mut recording, 45.0, "resumed");
    let loss = |step: i64| {
        let noise = (step * 7919 % 101) as f64 / 101.0;
        let spike = if step == 300 { 3.0 } else { 0.0 };
        4.0 / (1.0 + step as f64 / 60.0) + 0.3 * noise + spike
    };
    let rows = |from_secs: u64, steps: std::ops::Range<i64>| -> Vec<(u64, i64, f64)> {
        let begin = steps.start;
        let time = |step: i64| from_secs * SECOND + (step - begin) as u64 * SECOND / 12;
        steps.map(|step| (time(step), step, loss(step))).collect()
    };
    for (writer, from_secs, steps) in [("python-1", 12, 0..360), ("python-2", 47, 320..800)] {
        let rows = rows(from_secs, steps);
        add_metric(&mut recording, writer, "train/loss", &rows);
        let odd = |row: &(u64, i64, f64)| match row.1 {
            500 => (row.0, row.1, f64::NAN),
            _ => (row.0, row.1, 1.0 + 0.2 * row.2),
        };
        let norms: Vec<_> = rows.iter().map(odd).collect();
        add_metric(&mut recording, writer, "grad_norm", &norms);
    }
    let options = ChartOptions {
        metrics: vec!["train/loss".into(), "grad_norm".into()],
        across,
        limit: Some(limit(3.0 * GIB)),
        ..ChartOptions::default()
    };
    memory_chart(&recording, &options)
}

fn million() -> Chart {
    let mut recording = empty("a million samples, one of them a spike");
    let level = |t: f64| {
        let noise = ((t * 7919.0).sin() * 43758.5453).fract().abs();
        let spike = if (t - 41234.5).abs() < 0.04 {
            2.0 * GIB
        } else {
            0.0
        };
        (1.0 + 0.3 * (t / 9000.0).sin() + 0.1 * noise) * GIB + spike
    };
    let points = curve(100_000.0, 10.0, level);
    add_process(&mut recording, 100, "python serve.py", &points);
    add_tree(&mut recording, &points);
    memory_chart(&recording, &ChartOptions::default())
}
