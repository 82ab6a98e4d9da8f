//! The scanners against `fancy-regex` with the patterns as published, and the tables against `regex-syntax`.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::class::{Class, class_of};
use super::*;

fn known() -> [Pattern; 3] {
    [Pattern::Gpt2, Pattern::Cl100k, Pattern::O200k]
}

/// The ends of the words by the regular expression, which matches everything.
fn expected(regex: &fancy_regex::Regex, text: &str) -> Vec<usize> {
    let ends: Vec<usize> = regex
        .find_iter(text)
        .map(|found| found.unwrap().end())
        .collect();
    assert_eq!(ends.last().copied().unwrap_or(0), text.len());
    ends
}

fn ends(pattern: &Pattern, text: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut last = 0;
    pattern
        .for_each_span(text, |start, end| {
            assert_eq!(start, last, "words follow each other without a gap");
            assert!(end > start, "no word is empty");
            last = end;
            ends.push(end);
        })
        .unwrap();
    assert_eq!(last, text.len(), "words cover the text");
    ends
}

/// Compiled once: that takes far longer than a short text.
static PUBLISHED: LazyLock<[(fancy_regex::Regex, Pattern); 3]> = LazyLock::new(|| {
    known().map(|pattern| {
        (
            fancy_regex::Regex::new(pattern.regex().unwrap()).unwrap(),
            pattern,
        )
    })
});

fn compare(text: &str) {
    for (regex, pattern) in PUBLISHED.iter() {
        assert_eq!(
            ends(pattern, text.as_bytes()),
            expected(regex, text),
            "{pattern}: {text:?}"
        );
    }
}

#[test]
fn tables_are_those_of_regex_syntax_for_every_code_point() {
    let holds = |pattern: &str| {
        let mut held = vec![false; 0x11_0000];
        let hir = regex_syntax::parse(pattern).unwrap();
        let regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(class)) =
            hir.kind()
        else {
            panic!("{pattern} is not a class");
        };
        for range in class.ranges() {
            held[range.start() as usize..=range.end() as usize].fill(true);
        }
        held
    };
    let check = |pattern: &str, ours: &dyn Fn(Class) -> bool| {
        let held = holds(pattern);
        for code in (0..0x11_0000_u32).filter(|code| char::from_u32(*code).is_some()) {
            assert_eq!(
                ours(class_of(code)),
                held[code as usize],
                "{pattern} at U+{code:04X}"
            );
        }
    };
    check(r"\p{L}", &Class::is_letter);
    check(r"\p{N}", &|class| class == Class::Number);
    check(r"\s", &|class| class == Class::Space);
    check(r"\p{M}", &|class| class == Class::Mark);
    check(r"[\p{Lu}\p{Lt}]", &|class| class == Class::Upper);
    check(r"\p{Ll}", &|class| class == Class::Lower);
    check(r"[\p{Lm}\p{Lo}]", &|class| class == Class::Caseless);
    check(r"[^\s\p{L}\p{N}]", &Class::is_symbol);
}

/// Characters that the patterns treat differently, and their neighbours.
const NASTY: [&str; 52] = [
    "a",
    "b",
    "s",
    "S",
    "t",
    "d",
    "m",
    "l",
    "L",
    "v",
    "re",
    "E",
    "Z",
    "'",
    "\u{2019}",
    "''",
    "'ll",
    "\u{17F}",
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "\r",
    "\u{B}",
    "\u{85}",
    "\u{A0}",
    "\u{3000}",
    "\u{2028}",
    "\u{200D}",
    "0",
    "12",
    "\u{663}",
    "\u{BD}",
    "\u{2167}",
    ".",
    "/",
    "-",
    "<|",
    "\u{0}",
    "\u{301}",
    "\u{64E}",
    "\u{FE0F}",
    "\u{E0101}",
    "\u{1C5}",
    "\u{2B0}",
    "\u{4E2D}",
    "\u{627}",
    "\u{C4}",
    "\u{E4}",
    "\u{1F469}",
    "\u{10FFFF}",
];

/// What texts are made of.
const ORDINARY: [&str; 40] = [
    "the",
    " quick",
    "Brown",
    "HTTPServer",
    "camelCase",
    " don't",
    "it'S",
    "they'LL",
    "'re",
    "x'ſ",
    "'save",
    " 'tis",
    "2024",
    "1234567",
    " 12",
    "\n",
    "\n\n",
    "\r\n",
    "\n    ",
    "\n\t",
    "  \n",
    "    ",
    "\t\t",
    ";\n/*",
    "*/\n\n",
    "//",
    "://",
    "({",
    ").",
    " -- ",
    "\"",
    "中文字",
    "ひらがな",
    "한국어",
    "Привет",
    "Ελλάδα",
    "नमस्ते",
    "مُحَمَّد",
    "👩\u{200D}👧",
    "❤\u{FE0F}",
];

fn nasty_text(most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&NASTY[..]), 0..most)
        .prop_map(|parts| parts.concat())
}

#[test]
fn every_pair_and_triple_of_nasty_characters_falls_apart_as_the_expressions_say() {
    for first in NASTY {
        for second in NASTY {
            for third in NASTY {
                compare(&[first, second, third].concat());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nasty_texts_fall_apart_as_the_expressions_say(text in nasty_text(60)) {
        compare(&text);
    }

    #[test]
    fn texts_over_several_blocks_fall_apart_as_the_expressions_say(before in 0_usize..70, text in nasty_text(200)) {
        compare(&("x".repeat(before) + &text));
    }

    #[test]
    fn ordinary_texts_with_nasty_places_fall_apart_as_the_expressions_say(parts in prop::collection::vec(
        prop_oneof![
            4 => prop::sample::select(&ORDINARY[..]),
            1 => prop::sample::select(&NASTY[..]),
        ], 0..120).prop_map(|parts| parts.concat())) {
        compare(&parts);
    }

    #[test]
    fn runs_of_every_length_fall_apart_as_the_expressions_say(parts in prop::collection::vec(
        (prop::sample::select(&NASTY[..]), prop_oneof![3 => 1_usize..4, 1 => 1_usize..140]), 0..12)) {
        compare(&parts.iter().map(|(part, times)| part.repeat(*times)).collect::<String>());
    }

    #[test]
    fn any_text_falls_apart_as_the_expressions_say(text in any::<String>()) {
        compare(&text);
    }

    #[test]
    fn any_bytes_fall_apart_into_words_without_a_gap(
        parts in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..20),
            nasty_text(10).prop_map(String::into_bytes),
            Just(b"\xED\xA0\x80".to_vec()),
            Just(b"\xF0\x9F".to_vec()),
        ], 0..12),
    ) {
        let text = parts.concat();
        for pattern in known() {
            ends(&pattern, &text);
        }
        ends(&r"\w+".parse().unwrap(), &text);
    }

    #[test]
    fn a_byte_that_is_not_utf8_counts_as_a_symbol(before in nasty_text(20), after in nasty_text(20), byte in 0x80_u8..) {
        // U+FFFF is a symbol to every pattern; one byte stands for its three.
        let text = [before.as_bytes(), "\u{FFFF}".as_bytes(), after.as_bytes()].concat();
        let broken = [before.as_bytes(), &[byte], after.as_bytes()].concat();
        prop_assume!(std::str::from_utf8(&broken).is_err());
        for pattern in known() {
            let place = before.len();
            let moved: Vec<usize> = ends(&pattern, &text).into_iter().map(|end| if end > place { end - 2 } else { end }).collect();
            prop_assert_eq!(ends(&pattern, &broken), moved, "{}", pattern);
        }
    }

    #[test]
    fn a_safe_cut_changes_no_word(before in nasty_text(40), after in nasty_text(40)) {
        for pattern in known() {
            let whole = [before.as_bytes(), after.as_bytes()].concat();
            for seen in [&whole[..], before.as_bytes()] {
                let mut limit = seen.len();
                while let Some(cut) = pattern.safe_cut_before(seen, limit) {
                    prop_assert!(cut > 0 && cut < seen.len());
                    let mut both = ends(&pattern, &whole[..cut]);
                    both.extend(ends(&pattern, &whole[cut..]).into_iter().map(|end| end + cut));
                    prop_assert_eq!(both, ends(&pattern, &whole), "{} cut at {}", pattern, cut);
                    limit = cut - 1;
                }
            }
        }
    }
}

#[test]
fn capitals_among_letters_without_case_fall_apart_as_the_expressions_say() {
    let rest =
        " and the rest of a text that is longer than one block of bytes, so that blocks are used"
            .repeat(2);
    for start in [
        "中ABC.",
        "中Abc",
        "中AB中.",
        "a中B中C.",
        "中A中B.",
        "x's中Brown",
        "x'ſمBrown",
        "a'll\u{301}Ät",
        "..\u{301}x",
        ".\u{301}x",
        " ❤\u{FE0F}x",
        ";\n\n/**\n",
        ";\n/\n/.",
        "it's's",
        "it'sX",
        "it'rEx",
        "''s",
        "'save",
        "\n \n x",
        "\n \u{3000}1",
    ] {
        compare(&(start.to_owned() + &rest));
    }
}

#[test]
fn ordinary_text_has_safe_cuts() {
    for text in [
        "the quick brown fox",
        "天地玄黄，宇宙洪荒。",
        "1 22 333",
        "int main(void) {}",
    ] {
        for pattern in known() {
            assert!(
                pattern.safe_cut(text.as_bytes()).is_some(),
                "{pattern}: {text}"
            );
        }
    }
    assert_eq!(Pattern::Gpt2.safe_cut(&[b'a'; 1000]), None);
    assert_eq!(Pattern::None.safe_cut(b"a b c"), None);
}

#[test]
fn words_are_the_slices_of_the_text() {
    let words: Vec<&[u8]> = Pattern::Gpt2
        .words(b"Hello, don't  stop")
        .unwrap()
        .collect();
    let expected: [&[u8]; 6] = [b"Hello", b",", b" don", b"'t", b" ", b" stop"];
    assert_eq!(words, expected);
    assert_eq!(
        Pattern::None.words(b"a b").unwrap().collect::<Vec<_>>(),
        [b"a b"]
    );
    assert_eq!(Pattern::None.words(b"").unwrap().count(), 0);
}

#[test]
fn patterns_are_read_by_name_and_by_expression() {
    for name in ["gpt2", "cl100k", "o200k", "none", r"\p{Han}|\s"] {
        assert_eq!(name.parse::<Pattern>().unwrap().to_string(), name);
    }
    assert_eq!(GPT2_REGEX.parse::<Pattern>().unwrap(), Pattern::Gpt2);
}
