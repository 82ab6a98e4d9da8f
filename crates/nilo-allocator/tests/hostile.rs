//! Files that are damaged, or made to harm.

mod support;

use nilo_allocator::{PickleError, SnapshotError};
use support::{Object, event, made_up, pickled, read};

fn refusal(bytes: &[u8]) -> String {
    let error = read(bytes).map(|_| ()).expect_err("refused").to_string();
    assert!(!error.contains('\n'), "one sentence: {error}");
    error
}

#[test]
fn opcodes_that_run_code_are_refused_by_name_and_place() {
    let system = b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.";
    assert_eq!(
        refusal(system),
        "refused opcode GLOBAL at byte 2: it can run code, and a memory snapshot has none"
    );
    for (bytes, name) in [
        (&b"\x80\x04N)R."[..], "REDUCE"),
        (b"\x80\x04}}b.", "BUILD"),
        (b"\x80\x02(ios\nsystem\n.", "INST"),
        (b"\x80\x02(o.", "OBJ"),
        (b"\x80\x02N)\x81.", "NEWOBJ"),
        (b"\x80\x04N)}\x92.", "NEWOBJ_EX"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL"),
        (b"\x80\x02\x82\x01.", "EXT1"),
        (b"\x80\x02\x83\x01\x00.", "EXT2"),
        (b"\x80\x02\x84\x01\x00\x00\x00.", "EXT4"),
        (b"\x80\x02P1\n.", "PERSID"),
        (b"\x80\x02NQ.", "BINPERSID"),
        (b"\x80\x05\x97.", "NEXT_BUFFER"),
    ] {
        assert!(
            refusal(bytes).contains(&format!("refused opcode {name} at byte")),
            "{name}: {}",
            refusal(bytes)
        );
    }
}

#[test]
fn what_is_no_pickle_says_so() {
    assert_eq!(refusal(b""), "not a pickle of protocol 2 or later");
    assert_eq!(refusal(b"hello"), "not a pickle of protocol 2 or later");
    assert_eq!(
        refusal(b"\x80\x06."),
        "pickle protocol 6 is not supported, only 2 to 5"
    );
    assert_eq!(
        refusal(b"\x80\x02I1\n."),
        "unsupported opcode 0x49 at byte 2"
    );
    assert!(refusal(b"\x1f\x8b\x08garbage").starts_with("damaged gzip data"));
    assert_eq!(
        refusal(b"\x80\x02K\x01."),
        "not a memory snapshot: it is neither a dict nor a list"
    );
    assert_eq!(
        refusal(b"\x80\x02}."),
        "not a memory snapshot: it has neither segments nor device traces"
    );
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    let whole = pickled(&made_up(
        vec![],
        vec![event("alloc", 4096, 512), event("oom", 1, 2)],
    ));
    assert!(read(&whole).is_ok());
    for length in 0..whole.len() {
        let error = read(&whole[..length]).map(|_| ()).unwrap_err();
        let expected = if length == 0 {
            PickleError::NotAPickle
        } else {
            PickleError::Truncated { offset: length }
        };
        assert!(
            matches!(error, SnapshotError::Pickle(error) if error == expected),
            "cut at {length}"
        );
    }
}

#[test]
fn claimed_lengths_beyond_the_file_cost_nothing() {
    for bytes in [
        &b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff"[..],
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x80\x04X\xff\xff\xff\xff",
        b"\x80\x04\x8b\xff\xff\xff\xff",
    ] {
        assert!(refusal(bytes).starts_with("truncated pickle"));
    }
}

#[test]
fn operands_that_are_missing_are_an_error() {
    for bytes in [
        &b"\x80\x02."[..],
        b"\x80\x02e.",
        b"\x80\x02u.",
        b"\x80\x02(e.",
        b"\x80\x02N(Ne.",
        b"\x80\x02}(Nu.",
        b"\x80\x02s.",
        b"\x80\x02a.",
        b"\x80\x02\x86.",
        b"\x80\x02t.",
        b"\x80\x020.",
        b"\x80\x02q\x00.",
        b"\x80\x02]](\x94.",
        b"\x80\x02(d0l.",
    ] {
        let error = refusal(bytes);
        assert!(error.contains("does not find its operands"), "{error}");
    }
    assert_eq!(
        refusal(b"\x80\x02h\x07."),
        "damaged pickle: memo entry 7 at byte 2 does not exist"
    );
}

#[test]
fn lists_that_contain_themselves_and_each_other_do_not_expand() {
    // A list of itself, then fifty levels of lists that name the level below ten times.
    let mut whole = b"\x80\x04}(\x8c\x08segments]\x8c\x04bomb](".to_vec();
    whole.extend(b"]\x94(h\x00h\x00e");
    for level in 0..50_u8 {
        whole.extend([b']', 0x94, b'(']);
        whole.extend([b'h', level].repeat(10));
        whole.push(b'e');
    }
    whole.extend(b"eu.");
    assert_eq!(read(&whole).unwrap().events.len(), 0);
}

#[test]
fn one_trace_for_many_devices_is_refused() {
    let mut bytes = b"\x80\x02}(X\x0d\x00\x00\x00device_traces](".to_vec();
    let trace = pickled(&Object::List(vec![event("alloc", 4096, 512)]));
    bytes.extend(&trace[2..trace.len() - 1]);
    bytes.extend([b'h', 0].repeat(100));
    bytes.extend(b"eu.");
    assert_eq!(
        refusal(&bytes),
        "not a memory snapshot: two owners share one list"
    );
}

#[test]
fn an_event_listed_twice_is_refused() {
    let mut bytes = b"\x80\x02}(X\x0d\x00\x00\x00device_traces](](".to_vec();
    let one = pickled(&event("alloc", 4096, 512));
    bytes.extend(&one[2..one.len() - 1]);
    bytes.extend(b"h\x00eeu.");
    assert!(refusal(&bytes).contains("names an object twice"));
}

#[test]
fn a_list_of_frames_that_grows_step_by_step_is_bounded() {
    let mut bytes = b"\x80\x02}(X\x08\x00\x00\x00segments]X\x01\x00\x00\x00f".to_vec();
    let frame = pickled(&support::frame("a.py", 1));
    bytes.extend(&frame[2..frame.len() - 1]);
    bytes.extend(b"X\x01\x00\x00\x00g]");
    for _ in 0..5000 {
        bytes.extend(b"h\x00a");
    }
    bytes.extend(b"u.");
    assert!(refusal(&bytes).contains("grows in too many steps"));
}

#[test]
fn wrong_types_are_named() {
    let with = |key, value| {
        let event = Object::Dict(vec![("action", Object::Text("alloc")), (key, value)]);
        refusal(&pickled(&made_up(vec![], vec![event])))
    };
    assert!(
        with("size", Object::Text("x")).contains("the value of \"size\" is not a whole number")
    );
    assert!(with("size", Object::Int(-1)).contains("the value of \"size\" is not a size in bytes"));
    assert!(with("addr", Object::None).contains("\"addr\" is not a whole number"));
    assert!(with("frames", Object::Int(1)).contains("\"frames\" is not a list of frames"));
    assert!(
        with("frames", Object::List(vec![Object::Int(1)]))
            .contains("\"frames\" is not a list of frames")
    );
    assert!(
        with("pool_id", Object::Tuple(vec![Object::Int(1)]))
            .contains("\"pool_id\" is not a pair of numbers")
    );
    let top = Object::Dict(vec![("device_traces", Object::Int(3))]);
    assert!(refusal(&pickled(&top)).contains("\"device_traces\" is not a list of lists of events"));
    let top = Object::Dict(vec![("segments", Object::Text("x"))]);
    assert!(refusal(&pickled(&top)).contains("\"segments\" is not a list"));
}

#[test]
fn memory_is_bounded_by_the_length_of_the_file() {
    // A byte each that would cost eight or more: open values, open marks, lists of one item.
    let open = [&b"\x80\x02"[..], &b"N".repeat(100_000)].concat();
    assert_eq!(
        refusal(&open),
        "damaged pickle: too many unfinished objects at byte 71789"
    );
    let marks = [&b"\x80\x02"[..], &b"(".repeat(100_000)].concat();
    assert!(refusal(&marks).contains("too many unfinished objects"));
    let lists = [&b"\x80\x02"[..], &b"]Na0".repeat(100_000)].concat();
    assert!(refusal(&lists).contains("too many objects that no snapshot has"));
}
