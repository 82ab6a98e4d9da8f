//! Plain tables: columns padded to their widest cell, numbers to the right.
//!
//! On a terminal that is too narrow, texts are shortened and columns left out, the least important first. A number is never cut.

use std::io::Write;

use crate::screen::Screen;
use crate::wrap::wrap_lines;

/// Which side a column's cells lean to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alignment {
    Left,
    Right,
}

/// A column with its heading.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextColumn<'a> {
    head: &'a str,
    lean: Alignment,
    /// Whether its cells may lose their ends.
    is_text: bool,
    /// Columns with the highest number are left out first; those with 0 stay.
    drop_order: u8,
}

/// A column of texts.
pub(crate) const fn left(head: &str) -> TextColumn<'_> {
    TextColumn {
        head,
        lean: Alignment::Left,
        is_text: true,
        drop_order: 0,
    }
}

/// A column of texts that say nothing without their ends.
pub(crate) const fn whole(head: &str) -> TextColumn<'_> {
    TextColumn {
        is_text: false,
        ..left(head)
    }
}

/// A column of numbers.
pub(crate) const fn right(head: &str) -> TextColumn<'_> {
    TextColumn {
        lean: Alignment::Right,
        ..whole(head)
    }
}

impl<'a> TextColumn<'a> {
    pub(crate) const fn head(&self) -> &'a str {
        self.head
    }

    /// Where there is no room, this one goes before those with a lower number.
    pub(crate) const fn drops(mut self, order: u8) -> Self {
        self.drop_order = order;
        self
    }
}

/// A text says something in this many characters; it is shortened so far before a column is left out ...
const SHORT_TEXT: usize = 16;
/// ... and so far where no column is left that could be.
const SHORTEST_TEXT: usize = 8;
/// Between two columns.
const GAP: usize = 2;

/// Writes a table that fits the screen; gives the columns that were left out.
pub(crate) fn write_table(
    out: &mut dyn Write,
    screen: Screen,
    columns: &[TextColumn<'_>],
    rows: &[Vec<String>],
) -> std::io::Result<Vec<usize>> {
    write_coloured_table(out, screen, columns, rows, &|_, _| None)
}

/// As [`write_table`], with the severity of a row's cell in colour.
pub(crate) fn write_coloured_table(
    out: &mut dyn Write,
    screen: Screen,
    columns: &[TextColumn<'_>],
    rows: &[Vec<String>],
    severity: &dyn Fn(usize, usize) -> Option<&'static str>,
) -> std::io::Result<Vec<usize>> {
    let sizes: Vec<ColumnWidth> = columns
        .iter()
        .enumerate()
        .map(|of| ColumnWidth::of(of, rows))
        .collect();
    let shown = fit(columns, &sizes, screen.columns);
    let heads: Vec<String> = columns
        .iter()
        .map(|column| column.head.to_owned())
        .collect();
    write_row(out, columns, &shown, &heads, &|_, cell| cell.to_owned())?;
    for (index, row) in rows.iter().enumerate() {
        let paint = |column: usize, cell: &str| match severity(index, column) {
            Some(severity) => screen.paint(severity, cell),
            None => cell.to_owned(),
        };
        write_row(out, columns, &shown, row, &paint)?;
    }
    let is_left_out = |column: &usize| shown.iter().all(|shown| shown.column != *column);
    Ok((0..columns.len()).filter(is_left_out).collect())
}

/// Names the columns that were left out, below their table. A change is that of the column before it.
pub(crate) fn write_left_out(
    out: &mut dyn Write,
    screen: Screen,
    columns: &[TextColumn<'_>],
    left_out: &[usize],
) -> std::io::Result<()> {
    if left_out.is_empty() {
        return Ok(());
    }
    let names = left_out.iter().map(|column| match columns[*column].head {
        "CHANGE" => format!("CHANGE of {}", columns[column - 1].head),
        head => head.to_owned(),
    });
    let names: Vec<String> = names.collect();
    let names = names.join(", ");
    let line = format!("Not shown: {names} (the terminal is too narrow)\n");
    write!(out, "{}", wrap_lines(&line, screen))
}

fn write_row(
    out: &mut dyn Write,
    columns: &[TextColumn<'_>],
    shown: &[ShownColumn],
    row: &[String],
    paint: &dyn Fn(usize, &str) -> String,
) -> std::io::Result<()> {
    let mut line = String::new();
    for (place, ShownColumn { column, width }) in shown.iter().enumerate() {
        let cell = shorten(&row[*column], *width);
        let padding = " ".repeat(width - width_of(&cell));
        let cell = paint(*column, &cell);
        if place > 0 {
            line.push_str(&" ".repeat(GAP));
        }
        match columns[*column].lean {
            Alignment::Left => line.extend([cell, padding]),
            Alignment::Right => line.extend([padding, cell]),
        }
    }
    writeln!(out, "{}", line.trim_end())
}

/// How wide a column would be, and how narrow it may become.
#[derive(Debug, Clone, Copy)]
struct ColumnWidth {
    natural: usize,
    /// The widest cell that stays whole; headings may be shortened.
    least: usize,
}

impl ColumnWidth {
    fn of((index, column): (usize, &TextColumn<'_>), rows: &[Vec<String>]) -> ColumnWidth {
        let widest = rows
            .iter()
            .map(|row| width_of(&row[index]))
            .max()
            .unwrap_or(0);
        ColumnWidth {
            natural: widest.max(width_of(column.head)),
            least: match column.is_text {
                true => 0,
                false => widest,
            },
        }
    }
}

/// A column that is shown, with its width.
#[derive(Debug, Clone, Copy)]
struct ShownColumn {
    column: usize,
    width: usize,
}

/// The columns for which there is room.
fn fit(columns: &[TextColumn<'_>], sizes: &[ColumnWidth], room: Option<usize>) -> Vec<ShownColumn> {
    let natural = |column: usize| ShownColumn {
        column,
        width: sizes[column].natural,
    };
    let mut shown: Vec<ShownColumn> = (0..columns.len()).map(natural).collect();
    let Some(room) = room else { return shown };
    loop {
        let orders = shown.iter().map(|shown| columns[shown.column].drop_order);
        let next = orders.max().filter(|order| *order > 0);
        let shortest = match next {
            Some(_) => SHORT_TEXT,
            None => SHORTEST_TEXT,
        };
        if shrink(sizes, &mut shown, room, shortest) {
            return shown;
        }
        // Of several that are equally important the last one goes.
        let goes = |shown: &ShownColumn| Some(columns[shown.column].drop_order) == next;
        let Some(place) = shown.iter().rposition(goes) else {
            return shown;
        };
        shown.remove(place);
        for shown in &mut shown {
            shown.width = sizes[shown.column].natural;
        }
    }
}

/// Shortens texts, the last column's first; says whether the table fits.
fn shrink(sizes: &[ColumnWidth], shown: &mut [ShownColumn], room: usize, shortest: usize) -> bool {
    let gaps = GAP * shown.len().saturating_sub(1);
    let taken: usize = shown.iter().map(|shown| shown.width).sum::<usize>() + gaps;
    let mut over = taken.saturating_sub(room);
    for (place, shown) in shown.iter_mut().enumerate().rev() {
        // The first column names the row: it is shortened only where nothing else can give way.
        if place == 0 && shortest == SHORT_TEXT {
            continue;
        }
        let least = sizes[shown.column].least.max(shortest);
        let less = over.min(shown.width.saturating_sub(least));
        shown.width -= less;
        over -= less;
    }
    over == 0
}

fn shorten(cell: &str, width: usize) -> String {
    match width_of(cell) <= width {
        true => cell.to_owned(),
        false => {
            let kept: String = cell.chars().take(width.saturating_sub(1)).collect();
            format!("{kept}…")
        }
    }
}

fn width_of(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_are_left_out_are_named() {
        let screen = Screen {
            columns: Some(24),
            colour: false,
        };
        let heads = [
            left("RUN"),
            right("PEAK"),
            right("CHANGE").drops(1),
            left("STATUS").drops(2),
        ];
        let row = ["20261115-07553", "1.25 GiB", "+10 %", "exited 0"];
        let mut out = Vec::new();
        let rows = [row.map(str::to_owned).to_vec()];
        let left_out = write_table(&mut out, screen, &heads, &rows).unwrap();
        write_left_out(&mut out, screen, &heads, &left_out).unwrap();
        let written = String::from_utf8(out).unwrap();
        let told = written.split_whitespace().collect::<Vec<_>>().join(" ");
        let expected = "Not shown: CHANGE of PEAK, STATUS (the terminal is too narrow)";
        assert!(told.ends_with(expected), "{written}");
        let mut nothing = Vec::new();
        write_left_out(&mut nothing, screen, &heads, &[]).unwrap();
        assert!(nothing.is_empty());
    }

    fn table(columns: Option<usize>) -> String {
        let screen = Screen {
            columns,
            colour: false,
        };
        let heads = [
            left("RUN"),
            left("STATUS").drops(2),
            right("PEAK"),
            right("MEAN").drops(3),
            left("COMMAND").drops(1),
        ];
        let row = |cells: [&str; 5]| cells.map(str::to_owned).to_vec();
        let rows = [
            row([
                "20261115-075530-417-base",
                "exited 0",
                "1.25 GiB",
                "300.00 MiB",
                "python train.py --batch-size 32",
            ]),
            row([
                "20261115-075531-002-b",
                "killed 9",
                "12.25 GiB",
                "3.00 MiB",
                "python train.py",
            ]),
        ];
        let mut out = Vec::new();
        write_table(&mut out, screen, &heads, &rows).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_pipe_gets_everything() {
        assert!(table(None).contains("python train.py --batch-size 32"));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_number_is_cut() {
        for columns in 24..120 {
            let text = table(Some(columns));
            for line in text.lines() {
                assert!(width_of(line) <= columns, "{columns}: {line}");
            }
            for whole in ["1.25 GiB", "12.25 GiB"] {
                assert!(text.contains(whole), "{columns}: {text}");
            }
            assert_eq!(text.contains("MEAN"), text.contains("300.00 MiB"), "{text}");
        }
    }

    #[test]
    fn the_least_important_column_goes_first() {
        assert!(table(Some(80)).contains("MEAN"));
        let narrower = table(Some(66));
        assert!(
            !narrower.contains("MEAN") && narrower.contains("STATUS"),
            "{narrower}"
        );
        let narrow = table(Some(40));
        assert_eq!(
            narrow,
            "RUN                            PEAK\n\
             20261115-075530-417-base   1.25 GiB\n\
             20261115-075531-002-b     12.25 GiB\n"
        );
    }
}
