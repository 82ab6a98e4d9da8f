//! Traces as CSV files, for plotting.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::trace::Trace;

const HEADER: &str = "time_secs,used_bytes,limit_bytes,held_bytes,reclaimable_bytes,children_bytes,own_bytes,\
                      swap_used_bytes,swap_total_bytes,pressure_full,step,mark";

/// Writes `NAME.csv` into a folder; a slash in the name becomes a dash.
pub fn dump(trace: &Trace, folder: &Path) -> io::Result<()> {
    let path = folder.join(format!("{}.csv", trace.name.replace('/', "-")));
    let mut output = BufWriter::new(File::create(path)?);
    writeln!(output, "{HEADER}")?;
    for point in &trace.points {
        write!(output, "{},{}", point.seconds(), point.used_bytes)?;
        cell(&mut output, point.limit_bytes)?;
        cell(&mut output, point.held_bytes)?;
        cell(&mut output, Some(point.reclaimable_bytes))?;
        cell(&mut output, point.children_bytes)?;
        cell(&mut output, point.own_bytes)?;
        cell(&mut output, point.swap_used_bytes)?;
        cell(&mut output, point.swap_total_bytes)?;
        cell(&mut output, point.pressure_full)?;
        cell(&mut output, point.step)?;
        writeln!(output, ",{}", point.mark.as_deref().unwrap_or(""))?;
    }
    output.flush()
}

/// What was not measured is an empty field.
fn cell(output: &mut impl Write, value: Option<impl std::fmt::Display>) -> io::Result<()> {
    match value {
        Some(value) => write!(output, ",{value}"),
        None => write!(output, ","),
    }
}
