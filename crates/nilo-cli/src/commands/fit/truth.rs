//! `nilo fit --truth`: estimates beside measurements. Cases of classes that the closed form does not know are traced by Python, where that can be.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use nilo_answer::fit::truth::{
    EstimateAndTruth, FIT_TRUTH_SCHEMA, FitTruthAnswer, TruthCase, read_cases,
};
use nilo_sample::printable::printable;
use serde_json::{Map, Value};

use crate::args::TextOrJson;
use crate::failure::Failure;
use crate::text::json::write_json;

pub(super) fn run(path: &Path, format: TextOrJson) -> Result<u8, Failure> {
    let cases = read_cases(path)?;
    let mut told = Vec::new();
    let mut out = std::io::stdout().lock();
    for case in &cases {
        let mut found = TruthCase::of(case);
        if found.problem.is_some()
            && let Some(traced) = traced_by_python(case)
        {
            found = traced;
        }
        if format == TextOrJson::Text {
            writeln!(out, "{}", line_of(&found))?;
        }
        told.push(found);
    }
    if format == TextOrJson::Json {
        let answer = FitTruthAnswer {
            schema: FIT_TRUTH_SCHEMA,
            cases: told,
        };
        write_json(&mut out, &answer)?;
    }
    Ok(0)
}

fn line_of(case: &TruthCase) -> String {
    let name = printable(&case.name);
    if let Some(problem) = &case.problem {
        return format!("{name:32} not estimated: {problem}");
    }
    let figures = [
        ("allocated", case.peak_allocated_bytes),
        ("reserved", case.peak_reserved_bytes),
        ("process", case.peak_process_bytes),
    ];
    let cell = |(name, figure): (&str, Option<EstimateAndTruth>)| {
        let EstimateAndTruth { estimate, truth } = figure?;
        let gibibytes = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
        let error = (estimate as f64 / truth.max(1) as f64 - 1.0) * 100.0;
        Some(format!(
            "{name} {:7.2} of {:7.2} GiB ({error:+.2} %)",
            gibibytes(estimate),
            gibibytes(truth)
        ))
    };
    let cells: Vec<String> = figures.into_iter().filter_map(cell).collect();
    format!("{name:32} {}", cells.join("  "))
}

/// The same case by `nilometer.fit` in the Python at hand; none where that has no PyTorch or does not know the case either.
fn traced_by_python(case: &Map<String, Value>) -> Option<TruthCase> {
    let mut file = tempfile::NamedTempFile::new().ok()?;
    serde_json::to_writer(&mut file, &[case]).ok()?;
    file.flush().ok()?;
    let python = std::env::var_os("NILO_PYTHON").unwrap_or_else(|| "python3".into());
    let output = Command::new(python)
        .args([
            "-W",
            "ignore",
            "-m",
            "nilometer.fit",
            "--format",
            "json",
            "--truth",
        ])
        .arg(file.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
    let traced: TruthCase = serde_json::from_value(answer.get("cases")?.get(0)?.clone()).ok()?;
    traced.problem.is_none().then_some(traced)
}
