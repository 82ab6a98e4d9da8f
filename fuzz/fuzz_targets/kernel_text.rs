//! Text that other programs choose and the kernel passes on: command lines and the kernel's log.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let _ = nilo_source::kernel_log::parse_record(&text);
    let _ = nilo_source::kernel_log::parse_oom_line(&text);
    let arguments: Vec<&str> = text.split('\0').collect();
    let (comm, argv) = arguments.split_first().expect("split gives at least one part");
    let name = nilo_source::display_name(comm, argv);
    assert!(name.chars().count() <= 80, "a name is short: {name:?}");
    assert!(!name.chars().any(char::is_control), "a name is printable: {name:?}");
});
