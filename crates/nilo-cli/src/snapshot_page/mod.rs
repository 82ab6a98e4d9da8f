//! The page of a GPU memory snapshot: one file with its style, its script and its data, and a policy that allows nothing else.

mod words;

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nilo_answer::snapshot::page::content::SnapshotPage;
use nilo_sample::printable::escape_json;
use serde::Serialize;
use sha2::{Digest, Sha256};

use words::PageWords;

const TEMPLATE: &str = include_str!("assets/page.html");
const STYLE: &str = include_str!("assets/style.css");
/// Later files use the names of earlier ones.
const SCRIPT: &str = concat!(
    "\"use strict\";\n",
    include_str!("assets/words.js"),
    include_str!("assets/packed.js"),
    include_str!("assets/canvas.js"),
    include_str!("assets/levels.js"),
    include_str!("assets/timeline.js"),
    include_str!("assets/flame.js"),
    include_str!("assets/segments.js"),
    include_str!("assets/tables.js"),
    include_str!("assets/main.js"),
);

#[derive(Serialize)]
struct PageData<'a> {
    #[serde(flatten)]
    page: &'a SnapshotPage,
    words: PageWords,
}

/// Writes the page.
pub(crate) fn write_page(out: &mut dyn Write, page: &SnapshotPage) -> io::Result<()> {
    let data = PageData {
        page,
        words: PageWords::of(page),
    };
    let title = escape_html(&page.file);
    // Only the template's own marks count: a file may be named %DATA%.
    for (place, part) in TEMPLATE.split('%').enumerate() {
        match (place % 2, part) {
            (0, text) => out.write_all(text.as_bytes())?,
            (_, "POLICY") => out.write_all(policy().as_bytes())?,
            (_, "TITLE") => out.write_all(title.as_bytes())?,
            (_, "STYLE") => out.write_all(STYLE.as_bytes())?,
            (_, "VERSION") => out.write_all(env!("CARGO_PKG_VERSION").as_bytes())?,
            (_, "SCRIPT") => out.write_all(SCRIPT.as_bytes())?,
            (_, "DATA") => out.write_all(script_data(&data)?.as_bytes())?,
            (_, other) => unreachable!("the template has no mark {other}"),
        }
    }
    Ok(())
}

/// Nothing may be loaded, and only this script and this style sheet count.
fn policy() -> String {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data:; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
}

/// JSON that cannot end the element that it stands in.
fn script_data(data: &impl Serialize) -> serde_json::Result<String> {
    let json = escape_json(&serde_json::to_string(data)?);
    Ok(json
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026"))
}

fn escape_html(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_end_its_element() {
        let hostile = ["</script><script>alert(1)</script>", "<!--", "]]>&lt;"];
        let json = script_data(&hostile).unwrap();
        assert!(!json.contains(['<', '>', '&']), "{json}");
        let read: Vec<String> = serde_json::from_str(&json).unwrap();
        assert_eq!(read, hostile);
        assert_eq!(escape_html("<b>\"'&"), "&lt;b&gt;&quot;&#39;&amp;");
    }

    #[test]
    fn the_script_asks_for_nothing_outside_and_writes_no_markup() {
        for forbidden in [
            "http:",
            "https:",
            "//cdn",
            "fetch(",
            "XMLHttpRequest",
            "import(",
            "innerHTML",
            "eval(",
            "new Function",
            "document.write",
            "insertAdjacentHTML",
            "WebSocket",
            "sendBeacon",
            "</script",
        ] {
            assert!(!SCRIPT.contains(forbidden), "{forbidden}");
            assert!(
                !TEMPLATE.contains(forbidden) || forbidden == "</script",
                "{forbidden}"
            );
        }
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
        assert!(!STYLE.contains("</") && !TEMPLATE.contains("src="));
    }
}
