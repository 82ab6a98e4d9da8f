//! Plain tables: columns padded to their widest cell, numbers to the right, the last column cut to the terminal.

use std::io::{IsTerminal, Write};

/// Which side a column's cells lean to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lean {
    Left,
    Right,
}

/// Writes a table; the last column is shortened when standard output is a narrower terminal.
pub(crate) fn write_table(
    out: &mut dyn Write,
    columns: &[(&str, Lean)],
    rows: &[Vec<String>],
) -> std::io::Result<()> {
    let heads: Vec<String> = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
    let width_of = |text: &str| text.chars().count();
    let widths: Vec<usize> = (0..columns.len())
        .map(|column| {
            let cells = rows
                .iter()
                .chain([&heads])
                .map(|row| width_of(&row[column]));
            cells.max().unwrap_or(0)
        })
        .collect();
    let terminal = std::io::stdout()
        .is_terminal()
        .then(terminal_size::terminal_size)
        .flatten()
        .map(|(width, _)| usize::from(width.0));
    for row in [&heads].into_iter().chain(rows) {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let gap = widths[column] - width_of(cell);
            let padding = " ".repeat(gap);
            if column > 0 {
                line.push_str("  ");
            }
            match columns[column].1 {
                Lean::Left => line.extend([cell.as_str(), &padding]),
                Lean::Right => line.extend([&padding, cell.as_str()]),
            }
        }
        let line = line.trim_end();
        match terminal {
            Some(width) if width_of(line) > width && width > 20 => {
                let kept: String = line.chars().take(width - 1).collect();
                writeln!(out, "{kept}…")?;
            }
            _ => writeln!(out, "{line}")?,
        }
    }
    Ok(())
}
