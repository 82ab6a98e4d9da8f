//! `nilo snapshot flame`.

use std::io::Write;
use std::path::Path;

use nilo_answer::snapshot::call_stack::AllocationFrame;
use nilo_answer::snapshot::flame::AllocationProfile;
use nilo_plot::{FlameFrame, FlameStack, flame_chart};
use nilo_sample::units::format_bytes;

use super::file::{about_file, read_device};
use crate::args::{FlameFormat, SnapshotFlameArgs};
use crate::failure::Failure;
use crate::output_file::{is_stdout, write_file};
use crate::text::json::json_text;
use crate::text::snapshot::places::{frame_in_words, moment_in_words};

pub(crate) fn run(args: SnapshotFlameArgs) -> Result<u8, Failure> {
    let path = &args.input.file;
    let (snapshot, device) = read_device(path, args.input.gpu)?;
    let file = path.display().to_string();
    let profile = AllocationProfile::of(file, &snapshot, device, &args.range.range())
        .map_err(about_file(path))?;
    let text = match args.format.unwrap_or_else(|| format_of(&args.output)) {
        FlameFormat::Svg => svg(&profile),
        FlameFormat::Speedscope => json_text(&profile.speedscope())?,
    };
    match is_stdout(&args.output) {
        true => std::io::stdout().lock().write_all(text.as_bytes())?,
        false => write_file(&args.output, |out| Ok(out.write_all(text.as_bytes())?))?,
    }
    Ok(0)
}

fn format_of(path: &Path) -> FlameFormat {
    match path.extension().is_some_and(|name| name == "json") {
        true => FlameFormat::Speedscope,
        false => FlameFormat::Svg,
    }
}

/// Function first, then the file without its folder: boxes are narrow.
fn short_label(frame: &AllocationFrame) -> String {
    let file = frame.file.rsplit('/').next().unwrap_or_default();
    let line = frame.line.map_or(String::new(), |line| format!(":{line}"));
    format!("{} {file}{line}", frame.function)
        .trim_end()
        .to_owned()
}

fn svg(profile: &AllocationProfile) -> String {
    let frame = |frame: &AllocationFrame| FlameFrame {
        label: short_label(frame),
        tooltip: frame_in_words(frame),
        group: frame.file.clone(),
    };
    let stacks: Vec<FlameStack> = profile
        .stacks
        .iter()
        .map(|(frames, bytes)| FlameStack {
            frames: frames.iter().map(frame).collect(),
            bytes: *bytes,
        })
        .collect();
    let title = format!(
        "{} allocated on GPU {} at the peak",
        format_bytes(profile.bytes as f64),
        profile.device
    );
    let subtitle = format!("{}, {}", profile.file, moment_in_words(&profile.moment));
    flame_chart(&title, &subtitle, &stacks).to_svg()
}
