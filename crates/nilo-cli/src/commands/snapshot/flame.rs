//! `nilo snapshot flame`.

use std::io::Write;
use std::path::Path;

use nilo_answer::snapshot::call_stack::AllocationFrame;
use nilo_answer::snapshot::flame::AllocationProfile;
use nilo_plot::{Chart, FlameFrame, FlameStack, flame_chart};
use nilo_sample::units::format_bytes;

use super::file::{about_file, read_device};
use crate::args::{FlameFormat, SnapshotFlameArgs};
use crate::failure::{Failure, note};
use crate::output_file::{is_stdout, refuse_overwriting, refuse_terminal, write_file};
use crate::png::png;
use crate::text::json::json_text;
use crate::text::snapshot::places::{frame_in_words, when_in_words};

pub(crate) fn run(args: SnapshotFlameArgs) -> Result<u8, Failure> {
    let path = &args.input.file;
    let format = match args.format {
        Some(format) => format,
        None => format_of(&args.output)?,
    };
    let is_piped = is_stdout(&args.output);
    if is_piped && format == FlameFormat::Png {
        refuse_terminal("PNG")?;
    }
    refuse_overwriting(&args.output, [&**path], "-o")?;
    let (snapshot, device) = read_device(path, args.input.gpu)?;
    let file = path.display().to_string();
    let profile = AllocationProfile::of(file, &snapshot, device, &args.range.range())
        .map_err(about_file(path))?;
    let bytes = match format {
        FlameFormat::Svg => chart(&profile).to_svg().into_bytes(),
        FlameFormat::Png => png(&chart(&profile))?,
        FlameFormat::Speedscope => json_text(&profile.speedscope())?.into_bytes(),
    };
    if is_piped {
        let mut out = std::io::stdout().lock();
        out.write_all(&bytes)?;
        out.flush()?;
        return Ok(0);
    }
    write_file(&args.output, |out| Ok(out.write_all(&bytes)?))?;
    note(&format!("wrote {}", args.output.display()));
    Ok(0)
}

/// What the file's name says; SVG on standard output.
fn format_of(path: &Path) -> Result<FlameFormat, Failure> {
    if is_stdout(path) {
        return Ok(FlameFormat::Svg);
    }
    let extension = path.extension().and_then(|ending| ending.to_str());
    match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("svg") => Ok(FlameFormat::Svg),
        Some("png") => Ok(FlameFormat::Png),
        Some("json") => Ok(FlameFormat::Speedscope),
        _ => Err(
            Failure::new(format!("cannot tell the format of {}", path.display())).hint(
                "use a name that ends in .svg, .png or .json (speedscope), or choose one with --format",
            ),
        ),
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

fn chart(profile: &AllocationProfile) -> Chart {
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
    let subtitle = format!("{}, {}", profile.file, when_in_words(&profile.moment));
    flame_chart(&title, &subtitle, &stacks)
}
