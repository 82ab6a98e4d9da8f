//! The two layouts of `sacct`: fields between bars (`-P`, `-p`), and columns as wide as the dashes under the header.

use crate::slurm::sacct::SacctError;

/// How a line is cut into fields.
#[derive(Debug)]
pub(crate) enum Layout {
    /// Fields between bars; `-p` ends every line with one more.
    Bars { closed: bool },
    /// Columns from one character to another.
    Columns(Vec<(usize, usize)>),
}

/// The names of the fields and how the lines below are cut.
pub(crate) fn read_header(
    header: &str,
    below: Option<&str>,
) -> Result<(Vec<String>, Layout), SacctError> {
    let is_rule = |line: &&str| {
        line.starts_with('-') && line.trim_end().chars().all(|c| c == '-' || c == ' ')
    };
    let layout = match below.filter(is_rule) {
        Some(rule) => Layout::Columns(columns_of(rule)),
        None if header.contains('|') => Layout::Bars {
            closed: header.ends_with('|'),
        },
        None => return Err(SacctError::NoHeader),
    };
    let names: Vec<String> = layout
        .fields(header)
        .iter()
        .map(|name| (*name).to_owned())
        .collect();
    match names.iter().any(|name| name.eq_ignore_ascii_case("JobID")) {
        true => Ok((names, layout)),
        false => Err(SacctError::NoHeader),
    }
}

/// Where the groups of dashes begin and end.
fn columns_of(rule: &str) -> Vec<(usize, usize)> {
    let mut columns = Vec::new();
    let mut begun = None;
    for (place, c) in rule.chars().chain([' ']).enumerate() {
        match (c, begun) {
            ('-', None) => begun = Some(place),
            (' ', Some(from)) => {
                columns.push((from, place));
                begun = None;
            }
            _ => {}
        }
    }
    columns
}

impl Layout {
    /// The fields of a line, without the spaces around them.
    pub(crate) fn fields<'a>(&self, line: &'a str) -> Vec<&'a str> {
        match self {
            Layout::Bars { closed } => {
                let line = line.strip_suffix('|').filter(|_| *closed).unwrap_or(line);
                line.split('|').map(str::trim).collect()
            }
            Layout::Columns(columns) => {
                let places: Vec<usize> = line.char_indices().map(|(place, _)| place).collect();
                let byte = |chars: usize| places.get(chars).copied().unwrap_or(line.len());
                columns
                    .iter()
                    .map(|(from, to)| line[byte(*from)..byte(*to)].trim())
                    .collect()
            }
        }
    }
}
