//! SVG as a tree of elements, written out with everything escaped.
//!
//! Names of jobs and processes come from outside and may hold markup, control characters or half of a bidirectional sentence: [`clean`] and the writer below are the only way for text into a picture.

use std::fmt::Write;

use nilo_sample::printable::is_printable;

/// An element with its attributes and what is inside.
#[derive(Debug, Clone)]
pub(crate) struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    children: Vec<Element>,
    text: Option<String>,
}

impl Element {
    pub(crate) fn new(name: &'static str) -> Element {
        Element {
            name,
            attributes: Vec::new(),
            children: Vec::new(),
            text: None,
        }
    }

    /// A group.
    pub(crate) fn group() -> Element {
        Element::new("g")
    }

    /// A straight line.
    pub(crate) fn line(from: (f64, f64), to: (f64, f64), stroke: &str) -> Element {
        Element::new("line")
            .num("x1", from.0)
            .num("y1", from.1)
            .num("x2", to.0)
            .num("y2", to.1)
            .attr("stroke", stroke)
    }

    /// A rectangle.
    pub(crate) fn rect(x: f64, y: f64, width: f64, height: f64) -> Element {
        Element::new("rect")
            .num("x", x)
            .num("y", y)
            .num("width", width.max(0.0))
            .num("height", height.max(0.0))
    }

    /// A filled dot.
    pub(crate) fn dot(x: f64, y: f64, radius: f64, fill: &str) -> Element {
        Element::new("circle")
            .num("cx", x)
            .num("cy", y)
            .num("r", radius)
            .attr("fill", fill)
    }

    pub(crate) fn attr(mut self, name: &'static str, value: impl Into<String>) -> Element {
        self.attributes.push((name, value.into()));
        self
    }

    pub(crate) fn num(self, name: &'static str, value: f64) -> Element {
        let text = number(value);
        self.attr(name, text)
    }

    pub(crate) fn text(mut self, text: &str) -> Element {
        self.text = Some(clean(text));
        self
    }

    pub(crate) fn child(mut self, child: Element) -> Element {
        self.children.push(child);
        self
    }

    pub(crate) fn push(&mut self, child: Element) {
        self.children.push(child);
    }

    /// What browsers show when the pointer rests on the element.
    pub(crate) fn tooltip(self, text: &str) -> Element {
        self.child(Element::new("title").text(text))
    }

    /// The document.
    pub(crate) fn write(&self, out: &mut String) {
        out.push('<');
        out.push_str(self.name);
        for (name, value) in &self.attributes {
            out.push(' ');
            out.push_str(name);
            out.push_str("=\"");
            escape(value, out);
            out.push('"');
        }
        if self.children.is_empty() && self.text.is_none() {
            out.push_str("/>");
        } else {
            out.push('>');
            if let Some(text) = &self.text {
                escape(text, out);
            }
            for child in &self.children {
                child.write(out);
            }
            out.push_str("</");
            out.push_str(self.name);
            out.push('>');
        }
        // A line break inside <text> would be drawn as a space.
        if self.name != "title" {
            out.push('\n');
        }
    }
}

/// A path of straight strokes.
#[derive(Debug, Default)]
pub(crate) struct Path {
    data: String,
}

impl Path {
    pub(crate) fn move_to(&mut self, x: f64, y: f64) {
        let _ = write!(self.data, "M{} {}", tenths(x), tenths(y));
    }

    pub(crate) fn line_to(&mut self, x: f64, y: f64) {
        let _ = write!(self.data, "L{} {}", tenths(x), tenths(y));
    }

    pub(crate) fn close(&mut self) {
        self.data.push('Z');
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    pub(crate) fn element(self) -> Element {
        Element::new("path").attr("d", self.data)
    }
}

/// Two decimals at most: a hundredth of a pixel.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0" } else { text }.to_owned()
}

/// A tenth of a pixel is enough for curves, and they have many numbers.
fn tenths(value: f64) -> String {
    number((value * 10.0).round() / 10.0)
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            c => out.push(c),
        }
    }
}

/// Text on one line: white space becomes a space, what XML forbids, what would reorder the text or hide in it becomes `U+FFFD`.
pub(crate) fn clean(text: &str) -> String {
    let replace = |c: char| match c {
        c if c.is_whitespace() => ' ',
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        c if !is_printable(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(replace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_and_attributes_is_escaped() {
        let mut out = String::new();
        let element = Element::new("text")
            .attr("id", "\"><script>")
            .text("a<b>&'c");
        element.write(&mut out);
        assert_eq!(
            out,
            "<text id=\"&quot;&gt;&lt;script&gt;\">a&lt;b&gt;&amp;&apos;c</text>\n"
        );
    }

    #[test]
    fn numbers_are_short_and_finite() {
        for (value, text) in [(1.0, "1"), (-0.001, "0"), (2.346, "2.35"), (f64::NAN, "0")] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(
            clean("a\nb\u{0}c\u{202e}d\u{200b}e"),
            "a b\u{fffd}c\u{fffd}d\u{fffd}e"
        );
    }
}
