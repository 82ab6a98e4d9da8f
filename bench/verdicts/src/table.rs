//! Tables for people: aligned on a terminal, with bars in Markdown.

/// Cells of text under headings. The first column is a name, the others are figures.
#[derive(Debug, Clone, Default)]
pub struct TextTable {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Without rows yet.
    pub fn new(header: &[&str]) -> Self {
        Self {
            header: header.iter().map(ToString::to_string).collect(),
            rows: Vec::new(),
        }
    }

    /// One more row.
    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Whether there is something to show.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// In columns of equal width.
    pub fn text(&self) -> String {
        let lines = || std::iter::once(&self.header).chain(&self.rows);
        let widths: Vec<usize> = (0..self.header.len())
            .map(|column| {
                lines()
                    .map(|line| line[column].chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        for line in lines() {
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                let padding = " ".repeat(width - cell.chars().count());
                if column == 0 {
                    text.push_str(&format!("{cell}{padding}"));
                } else {
                    text.push_str(&format!("  {padding}{cell}"));
                }
            }
            text.push('\n');
        }
        text
    }

    /// As Markdown; a bar inside a cell is escaped.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule = "| --: ".repeat(self.header.len().saturating_sub(1));
        let mut text = line(&self.header);
        text.push_str(&format!("| --- {rule}|\n"));
        for row in &self.rows {
            text.push_str(&line(row));
        }
        text
    }
}

/// A figure with so many decimals; a dash where there is none.
pub fn figure(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "–".to_string(), |value| format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_on_a_terminal_and_in_markdown() {
        let mut table = TextTable::new(&["name", "n"]);
        table.push(vec!["R² ≥ 0.8".to_string(), "12".to_string()]);
        table.push(vec!["x".to_string(), figure(None, 2)]);
        assert_eq!(table.text(), "name       n\nR² ≥ 0.8  12\nx          –\n");
        assert_eq!(
            table.markdown(),
            "| name | n |\n| --- | --: |\n| R² ≥ 0.8 | 12 |\n| x | – |\n"
        );
        let bars = TextTable::new(&["|x|"]);
        assert_eq!(bars.markdown(), "| \\|x\\| |\n| --- |\n");
    }
}
