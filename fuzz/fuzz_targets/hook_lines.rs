//! Any bytes as lines of the Python hooks: refused, or something that is small, whatever they say.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilo_runfile::parse_hook_line;

fuzz_target!(|data: &[u8]| {
    for line in data.split(|byte| *byte == b'\n') {
        if let Some(told) = parse_hook_line(line) {
            let length = format!("{told:?}").len();
            assert!(length < 500_000, "{length}");
        }
    }
});
