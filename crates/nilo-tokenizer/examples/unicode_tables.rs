//! Writes `src/pattern/tables.rs` from the Unicode data in `regex-syntax`:
//! `cargo run -p nilo-tokenizer --example unicode_tables > crates/nilo-tokenizer/src/pattern/tables.rs`
//!
//! The version of Unicode stands in that file. Another version changes where words end, and with them merges and ids.

use regex_syntax::hir::HirKind;
use regex_syntax::hir::{Class, ClassUnicode};

/// The classes in the order of their digits; `Other` is 0 and stands for all that none of these holds.
const CLASSES: [(u8, &str); 6] = [
    (1, r"\p{M}"),
    (2, r"\s"),
    (3, r"\p{N}"),
    (4, r"[\p{Lu}\p{Lt}]"),
    (5, r"\p{Ll}"),
    (6, r"[\p{Lm}\p{Lo}]"),
];

const BLOCK: usize = 128;

fn ranges(pattern: &str) -> Result<ClassUnicode, String> {
    match regex_syntax::parse(pattern)
        .map_err(|e| e.to_string())?
        .into_kind()
    {
        HirKind::Class(Class::Unicode(class)) => Ok(class),
        _ => Err(format!("{pattern} is not a class")),
    }
}

#[expect(clippy::print_stdout, reason = "the table is the output")]
fn main() -> Result<(), String> {
    let mut classes = vec![0_u8; 0x11_0000];
    for (digit, pattern) in CLASSES {
        for range in ranges(pattern)?.ranges() {
            let held = &mut classes[range.start() as usize..=range.end() as usize];
            if held.iter().any(|&class| class != 0) {
                return Err(format!("{pattern} shares code points with another class"));
            }
            held.fill(digit);
        }
    }
    // Far up there is one block of marks, the variation selectors; the table ends below it.
    let selectors = 0xE0100..=0xE01EF;
    if classes[*selectors.start()..=*selectors.end()]
        .iter()
        .any(|&c| c != 1)
    {
        return Err("the variation selectors are no longer all marks".to_owned());
    }
    let high = |code: &usize| classes[*code] != 0 && !selectors.contains(code);
    let last = (0..classes.len()).rev().find(high).ok_or("no classes")?;
    let block_count = last / BLOCK + 1;
    let mut blocks: Vec<&[u8]> = Vec::new();
    let mut index = Vec::new();
    for block in classes.chunks(BLOCK).take(block_count) {
        let place = blocks.iter().position(|&b| b == block).unwrap_or_else(|| {
            blocks.push(block);
            blocks.len() - 1
        });
        index.push(u8::try_from(place).map_err(|_| "more than 256 blocks")?);
    }
    println!(
        "//! Classes of code points, written by `examples/unicode_tables.rs`; not to be edited."
    );
    println!("//!");
    println!("//! Each block holds {BLOCK} code points, a digit each: the values of `Class`.");
    println!();
    println!("/// The version of Unicode that the classes are from.");
    println!("pub const UNICODE_VERSION: &str = \"16.0.0\";");
    println!();
    println!("/// Code points from here on are `Other`, but for the variation selectors.");
    println!("pub(super) const END: u32 = {:#X};", block_count * BLOCK);
    println!();
    println!("#[rustfmt::skip]");
    println!("pub(super) static INDEX: [u8; {block_count}] = [");
    for row in index.chunks(24) {
        let numbers: Vec<String> = row.iter().map(|n| format!("{n},")).collect();
        println!("    {}", numbers.join(" "));
    }
    println!("];");
    println!();
    println!("#[rustfmt::skip]");
    println!(
        "pub(super) static BLOCKS: [[u8; {BLOCK}]; {}] = [",
        blocks.len()
    );
    for block in blocks {
        let digits: String = block.iter().map(|&c| char::from(b'0' + c)).collect();
        println!("    *b\"{digits}\",");
    }
    println!("];");
    Ok(())
}
