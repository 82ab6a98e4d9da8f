//! A table of figures by call stack. A place in the code is never cut: where it does not fit beside its figures, it stands below them.

use std::io::Write;

use crate::screen::Screen;
use crate::text::table::{TextColumn, left, write_table};

/// What separates two columns.
const GAP: usize = 2;
/// Figures, and the place that they belong to.
pub(crate) type LocatedRow = (Vec<String>, String);

/// Writes figures with their places.
pub(crate) fn write_located(
    out: &mut dyn Write,
    screen: Screen,
    columns: &[TextColumn<'_>],
    rows: &[LocatedRow],
) -> std::io::Result<()> {
    let mut figures = Vec::new();
    let cells: Vec<Vec<String>> = rows.iter().map(|(figures, _)| figures.clone()).collect();
    write_table(&mut figures, screen, columns, &cells)?;
    let figures = String::from_utf8_lossy(&figures);
    let widest = figures.lines().map(|line| line.chars().count()).max();
    let places = rows.iter().map(|(_, place)| place.chars().count()).max();
    let width = widest.unwrap_or(0) + GAP + places.unwrap_or(0);
    if screen.columns.is_none_or(|columns| width <= columns) {
        let place = [left("ALLOCATED AT")];
        let columns = [columns, &place].concat();
        let whole =
            |(figures, place): &LocatedRow| [&figures[..], std::slice::from_ref(place)].concat();
        let rows: Vec<Vec<String>> = rows.iter().map(whole).collect();
        return write_table(out, screen, &columns, &rows).map(drop);
    }
    let mut lines = figures.lines();
    writeln!(out, "{}, ALLOCATED AT", lines.next().unwrap_or_default())?;
    for (line, (_, place)) in lines.zip(rows) {
        writeln!(out, "{line}\n    {place}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::table::right;

    fn written(columns: Option<usize>) -> String {
        let screen = Screen {
            columns,
            colour: false,
        };
        let rows = [(vec!["1.00 MiB".to_owned()], "train.py:57 main".to_owned())];
        let mut out = Vec::new();
        write_located(&mut out, screen, &[right("BYTES")], &rows).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_place_stands_beside_its_figures_or_below_them() {
        let beside = "   BYTES  ALLOCATED AT\n1.00 MiB  train.py:57 main\n";
        assert_eq!(written(None), beside);
        assert_eq!(written(Some(26)), beside);
        assert_eq!(
            written(Some(25)),
            "   BYTES, ALLOCATED AT\n1.00 MiB\n    train.py:57 main\n"
        );
    }
}
