//! Files with something wrong in them: read as far as they make sense, otherwise refused in one sentence with line and column.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

use nilo_import::{ByteUnit, Import, ImportOptions, read};
use nilo_sample::is_absent;

const MIB: f64 = 1048576.0;

fn import(text: &str) -> Import {
    read(text.as_bytes(), &ImportOptions::default()).unwrap()
}

fn import_with(text: &str, options: ImportOptions) -> Import {
    read(text.as_bytes(), &options).unwrap()
}

fn used(import: &Import) -> Vec<f64> {
    import.tracks()[0].used.values.to_vec()
}

fn said(bytes: &[u8]) -> String {
    read(bytes, &ImportOptions::default())
        .unwrap_err()
        .to_string()
}

#[test]
fn a_bad_cell_is_named_by_line_and_column() {
    assert_eq!(
        said(b"t,rss\n1,5\n2,lots\n3,5\n"),
        r#"line 3, column "rss": not a number: "lots""#
    );
    assert_eq!(
        said(b"t,rss\nsoon,5\n3,5\n"),
        r#"line 2, column "t": not a time: "soon""#
    );
    assert_eq!(
        said(b"t,step,rss\n1,one,5\n"),
        r#"line 2, column "step": not a number: "one""#
    );
    assert_eq!(
        said(b"t,rss\n1,5,7\n2,5\n"),
        "line 2 has 3 cells, the header has 2"
    );
}

#[test]
fn a_file_that_is_no_recording_says_what_is_missing() {
    assert_eq!(said(b""), "the recording is empty");
    assert_eq!(said(b"\n\n  \n"), "the recording is empty");
    assert_eq!(
        said(b"1,2\n3,4\n"),
        r#"line 1 should name the columns, but is "1,2""#
    );
    assert_eq!(
        said(b"a,rss\n1,2\n"),
        "no time column found; the columns are: a, rss"
    );
    assert_eq!(
        said(b"t,loss\n1,2\n"),
        "no memory column found; the columns are: t, loss"
    );
    assert!(said(b"t,rss\n").contains("no rows"));
    assert!(said(b"t,rss\n,5\n").contains("1 rows were dropped"));
    assert!(said(b"\x1f\x8b\x08").contains("gzip"));
    assert!(said(b"t,rss\n1,\"5\n2,6\n").contains("line 2: a quoted cell"));
    let error = read(&b"a,rss\n1,2\n"[..], &ImportOptions::default()).unwrap_err();
    assert!(error.hint().unwrap().contains("t_s"));
}

#[test]
fn empty_cells_and_words_for_nothing_are_absent() {
    let found = import("t,rss\n1,5\n2,\n3,NaN\n4,N/A\n5,-1\n6\n7,9\n");
    let values = used(&found);
    assert_eq!(values.len(), 7);
    assert!(values[1..6].iter().copied().all(is_absent));
    assert_eq!((values[0], values[6]), (5.0, 9.0));
}

#[test]
fn times_that_go_back_are_left_out_and_counted() {
    let found = import("t,rss\n1,5\n3,6\n2,7\n3,8\n4,9\n1e12,1\n");
    assert_eq!(used(&found), [5.0, 6.0, 8.0, 9.0]);
    assert_eq!(found.dropped.out_of_order, 2);
    assert!(found.warnings[0].contains("2 rows") && found.warnings[0].contains("line 4"));
}

#[test]
fn a_last_line_that_was_cut_off_is_left_out() {
    for torn in ["3,", "3", "3,6x"] {
        let text = format!("t,rss,x\n1,5,a\n2,6,b\n{torn}");
        let found = import(&text);
        assert_eq!(used(&found), [5.0, 6.0], "{torn}");
        assert_eq!(found.dropped.torn, 1, "{torn}");
    }
    // A whole last line without its end is kept, as many programs write it.
    assert_eq!(used(&import("t,rss\n1,5\n2,6")), [5.0, 6.0]);
    // The comma inside of the quotes and the missing quote are one cell.
    let marks = import("t,rss,marks\n1,5,\n2,6,\"epoch 1, st");
    assert_eq!(used(&marks), [5.0]);
}

#[test]
fn a_header_in_the_middle_is_that_of_a_restarted_tool() {
    let found = import("t,rss\n1,5\nt,rss\n2,6\n");
    assert_eq!(used(&found), [5.0, 6.0]);
    assert_eq!(found.dropped.repeated_headers, 1);
}

#[test]
fn quotes_line_ends_and_bytes_that_are_not_text_are_survived() {
    let text = b"\xef\xbb\xbft,\"note\",rss_mb\r\n0,\"a, \"\"b\"\"\nc\",1\r\n1,\xff\xfe,2\r\n\r\n# end\r\n";
    let found = read(&text[..], &ImportOptions::default()).unwrap();
    assert_eq!(used(&found), [MIB, 2.0 * MIB]);
}

#[test]
fn other_separators_and_decimal_commas() {
    for text in [
        "t;rss_mb\n0,5;1,5\n",
        "t\trss_mb\n0.5\t1.5\n",
        "t|rss_mb\n0.5|1.5\n",
        "t rss_mb\n0.5   1.5\n",
        "# t rss_mb\n0.5 1.5\n",
    ] {
        let found = import(text);
        assert_eq!(used(&found), [1.5 * MIB], "{text:?}");
        assert_eq!(found.tables[0].times, [500_000_000], "{text:?}");
    }
}

#[test]
fn rows_of_several_gpus_become_tables() {
    let found = import("timestamp,index,memory.used [MiB]\n1,0,5\n1,1,6\n2,0,7\n2,1,8\n");
    let tracks = found.tracks();
    assert_eq!(tracks.len(), 2);
    assert_eq!(tracks[1].name, "gpu 1 memory.used [MiB]");
    assert_eq!(tracks[1].used.values, [6.0 * MIB, 8.0 * MIB]);
}

#[test]
fn the_caller_has_the_last_word_on_columns_and_units() {
    let text = "when,blob_size,rss_mb\n10,3,4\n11,3,4\n";
    let options = ImportOptions {
        time_column: Some("when".to_owned()),
        columns: vec!["blob_size".to_owned()],
        unit: Some(ByteUnit::Kib),
        ..ImportOptions::default()
    };
    let found = import_with(text, options);
    assert_eq!(found.tracks().len(), 1);
    assert_eq!(used(&found), [3072.0, 3072.0]);
    let wrong = ImportOptions {
        columns: vec!["blob".to_owned()],
        ..ImportOptions::default()
    };
    let error = read("t,rss\n1,2\n".as_bytes(), &wrong).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"no column is called "blob"; the columns are: t, rss"#
    );
}

#[test]
fn percentages_need_a_whole_and_give_way_to_amounts() {
    let text = "t,memory_percent\n1,50\n";
    assert!(said(text.as_bytes()).contains("of what total is unknown"));
    let options = ImportOptions {
        total_bytes: Some(1000),
        ..ImportOptions::default()
    };
    assert_eq!(used(&import_with(text, options)), [500.0]);
    assert_eq!(used(&import("t,memory_percent,rss\n1,50,7\n")), [7.0]);
}

#[test]
fn a_column_without_a_unit_that_stays_small_is_warned_of() {
    let found = import("t,rss\n1,350.5\n");
    assert!(
        found.warnings[0].contains("names no unit"),
        "{:?}",
        found.warnings
    );
    assert!(import("t,rss\n1,350000000\n").warnings.is_empty());
}

#[test]
fn limits_are_kept() {
    let rows = |count: usize| {
        let lines: String = (0..count).map(|row| format!("{row},5\n")).collect();
        format!("t,rss\n{lines}")
    };
    let options = ImportOptions {
        most_rows: 100,
        ..ImportOptions::default()
    };
    assert!(read(rows(100).as_bytes(), &options).is_ok());
    let error = read(rows(101).as_bytes(), &options).unwrap_err();
    assert_eq!(error.to_string(), "line 102: more than 100 rows");
    let options = ImportOptions {
        most_bytes: 50,
        ..ImportOptions::default()
    };
    assert!(read(rows(101).as_bytes(), &options).is_err());
    let processes: String = (0..5000).map(|pid| format!("1,{pid},5\n")).collect();
    let many = format!("t,pid,rss\n{processes}");
    assert!(said(many.as_bytes()).contains("more than 4096 different values"));
    let wide: Vec<String> = (0..300).map(|n| format!("rss{n}_rss")).collect();
    let wide = format!("t,{}\n1\n", wide.join(","));
    assert!(said(wide.as_bytes()).contains("300 columns"));
}

#[test]
fn broken_files_of_mprof() {
    let found = import("CMDLINE python -c import os\nos.fork()\n\nMEM 1.0 1794753122.1\nMEM x");
    assert_eq!(used(&found), [MIB]);
    assert_eq!(found.dropped.torn, 1);
    assert_eq!(
        said(b"MEM 1.0 1794753122.1\nGARBAGE 5\n"),
        r#"line 2 begins with none of MEM, CHLD, FUNC, CMDLINE: "GARBAGE 5""#
    );
    assert_eq!(
        said(b"MEM 1.0 1794753122.1\nMEM much 1794753122.2\n"),
        r#"line 2, column "memory": not a number: "much""#
    );
}

#[test]
fn broken_long_exports() {
    let header = "time_seconds,table,column,step,value,writer\n";
    let text = format!(
        "{header}0.0,tree,memory_bytes,,5,r\n1.0,tree,memory_bytes,,6,r\n0.0,tree,rss_bytes,,7,r\n3.0,tree,rss_bytes,,8,r\n1.0,tr"
    );
    let found = import(&text);
    let tracks = found.tracks();
    assert_eq!(tracks[0].used.values, [5.0, 6.0]);
    assert_eq!(tracks[1].used.values[0], 7.0);
    assert!(is_absent(tracks[1].used.values[1]));
    assert_eq!((found.dropped.out_of_order, found.dropped.torn), (1, 1));
    let text = format!("{header}0.0,tree,memory_bytes,,many,r\n");
    assert_eq!(
        said(text.as_bytes()),
        r#"line 2, column "value": not a number: "many""#
    );
    let text = format!("{header}0.0,cgroup:/job,limit_bytes,,5,r\n");
    assert!(said(text.as_bytes()).contains("no rows"));
}
