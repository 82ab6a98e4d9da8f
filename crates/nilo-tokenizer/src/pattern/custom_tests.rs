//! Regular expressions of the user's.

use super::*;

#[test]
fn a_custom_pattern_keeps_what_lies_between_its_matches() {
    let pattern: Pattern = r"\d+".parse().unwrap();
    let words: Vec<&[u8]> = pattern.words(b"ab12c\xFF\xFE3").unwrap().collect();
    let expected: [&[u8]; 5] = [b"ab", b"12", b"c", b"\xFF\xFE", b"3"];
    assert_eq!(words, expected);
}

#[test]
fn an_expression_that_cannot_split_is_refused_in_one_sentence() {
    for bad in ["(", "[a", r"\p{Nonsense}", "a**(?"] {
        let error = bad.parse::<Pattern>().unwrap_err();
        assert!(
            matches!(error, PatternError::Syntax { .. }),
            "{bad}: {error}"
        );
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    for empty in ["", "a*", r"\b", "(?=a)", r"\s*|x"] {
        let error = empty.parse::<Pattern>().unwrap_err();
        assert!(
            matches!(error, PatternError::MatchesEmpty { .. }),
            "{empty}: {error}"
        );
    }
}

#[test]
fn an_empty_match_that_shows_late_does_not_stop_the_scan() {
    let pattern: Pattern = r"(?=q)|z".parse().unwrap();
    let words: Vec<&[u8]> = pattern.words(b"aqzq").unwrap().collect();
    let expected: [&[u8]; 3] = [b"aq", b"z", b"q"];
    assert_eq!(words, expected);
}

#[test]
fn an_expression_that_gives_up_is_an_error() {
    let pattern: Pattern = r"(x+x+)+(?!x)y".parse().unwrap();
    let error = pattern.words(&[b'x'; 40]).err().unwrap();
    assert!(matches!(error, PatternError::GaveUp { .. }), "{error}");
}
