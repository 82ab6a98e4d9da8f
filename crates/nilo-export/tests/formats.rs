//! Each format's promises, on recordings small enough to check by eye.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

use nilo_export::{
    CsvColumns, CsvLog, Format, write_csv, write_csv_long, write_json, write_parquet,
};
use nilo_sample::fixture::{column, description, table, table_of, tick_values};
use nilo_sample::rows::{CgroupRow, HostRow, TreeRow};
use nilo_sample::{
    ABSENT, Column, Ending, Event, RecordedTable, Recording, RunDescription, RunId, RunStatus,
    Subject, TableSpec, TimedEvent, Unit,
};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, RowAccessor};

const MIB: f64 = 1048576.0;
const TENTH: u64 = 100_000_000;

fn empty() -> Recording {
    Recording::empty(RunDescription {
        id: RunId::new(0, "job"),
        command: vec!["train".into()],
        cwd: String::new(),
        host: "box".into(),
        recorder_pid: 0,
        interval_nanos: TENTH,
        ..description()
    })
}

fn mark(time_nanos: u64, text: &str) -> TimedEvent {
    let event = Event::Mark { text: text.into() };
    TimedEvent { time_nanos, event }
}

/// Three ticks, a host read from the second on, a cgroup without a limit and then with one.
fn small() -> Recording {
    let mut recording = empty();
    let tree = |memory: f64, rss: f64, swap_bytes: f64, cpu_nanos: f64| TreeRow {
        memory_bytes: memory * MIB,
        rss_bytes: rss * MIB,
        high_water_bytes: 60.0 * MIB,
        swap_bytes,
        cpu_nanos,
        processes: 2.0,
        pss_processes: 0.0,
    };
    recording.tables.push(table_of(
        TableSpec::tree(),
        &[
            (0, tree(22.26, 23.0, ABSENT, 5e6)),
            (TENTH, tree(23.45, 24.0, 0.0, 2.02e7)),
            (2 * TENTH, tree(25.67, 26.0, 0.0, 5.23e7)),
        ],
    ));
    let host = HostRow {
        available_bytes: 1000.0 * MIB,
        ..HostRow::ABSENT
    };
    recording
        .tables
        .push(table_of(TableSpec::host(), &[(TENTH / 2, host)]));
    let cgroup = |limit_bytes: f64| CgroupRow {
        working_set_bytes: 30.0 * MIB,
        limit_bytes,
        ..CgroupRow::ABSENT
    };
    recording.tables.push(table_of(
        TableSpec::cgroup("/job"),
        &[
            (0, cgroup(2f64.powi(63))),
            (150_000_000, cgroup(64.0 * MIB)),
        ],
    ));
    recording.events = vec![
        mark(1, "load"),
        mark(TENTH, "say \"hi\", twice"),
        mark(10 * TENTH, "end"),
    ];
    recording
}

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

fn csv(recording: &Recording, columns: CsvColumns) -> String {
    text(|out| write_csv(recording, columns, out).unwrap())
}

#[test]
fn basic_csv_is_the_memory_log_of_old() {
    assert_eq!(
        csv(&small(), CsvColumns::Basic),
        "timestamp_seconds,memory_mb,cpu_percent\n\
         0.000,22.26,0.0\n\
         0.100,23.45,15.2\n\
         0.200,25.67,32.1\n"
    );
}

#[test]
fn full_csv_joins_the_rows_in_force_and_quotes_marks() {
    assert_eq!(
        csv(&small(), CsvColumns::Full),
        "timestamp_seconds,memory_mb,cpu_percent,rss_mb,high_water_mb,swap_mb,processes,\
         cgroup_working_set_mb,cgroup_limit_mb,host_available_mb,marks,ending\n\
         0.000,22.26,0.0,23.00,60.00,,2,30.00,,,,\n\
         0.100,23.45,15.2,24.00,60.00,0.00,2,30.00,,1000.00,\"load;say \"\"hi\"\", twice\",\n\
         0.200,25.67,32.1,26.00,60.00,0.00,2,30.00,64.00,1000.00,end,\n"
    );
}

#[test]
fn rows_of_the_end_are_marked_where_the_job_has_ended() {
    let mut recording = small();
    *column(&mut recording.tables[0], "memory_bytes") = vec![9e8, 7e8, 3e8];
    let ending = |status| Ending {
        status,
        exit_code: None,
        signal: None,
        time_nanos: 3 * TENTH,
        oom: None,
        left_running: Vec::new(),
        recorder_death: None,
        lost_rank: None,
        gpu_out_of_memory: None,
    };
    recording.description.ending = Some(ending(RunStatus::Detached));
    let goes_on = csv(&recording, CsvColumns::Full);
    assert!(!goes_on.contains(",1\n"), "{goes_on}");
    recording.description.ending = Some(ending(RunStatus::Exited));
    let wide = csv(&recording, CsvColumns::Full);
    let marked: Vec<bool> = wide.lines().map(|line| line.ends_with(",1")).collect();
    assert_eq!(marked, [false, false, true, true], "{wide}");
    let long = text(|out| write_csv_long(&recording, out).unwrap());
    assert!(long.ends_with("\n0.100000000,run,ending,,1,\n"), "{long}");
}

fn working_set(mib: f64, owned: f64) -> CgroupRow {
    CgroupRow {
        working_set_bytes: mib * MIB,
        owned,
        ..CgroupRow::ABSENT
    }
}

#[test]
fn the_cgroup_that_the_job_owns_wins() {
    let mut recording = small();
    recording.tables.push(table_of(
        TableSpec::cgroup("/mine"),
        &[(0, working_set(7.0, 1.0))],
    ));
    assert!(csv(&recording, CsvColumns::Full).contains(",2,7.00,,,,\n"));
}

#[test]
fn a_cgroup_that_others_were_in_is_not_the_jobs_own() {
    // As `nilo show` has it: owned from the first reading to the last, and the deepest of those.
    let mut recording = small();
    let later = table_of(
        TableSpec::cgroup("/mine/later"),
        &[
            (0, working_set(8.0, 0.0)),
            (50_000_000, working_set(8.0, 1.0)),
        ],
    );
    let own = table_of(TableSpec::cgroup("/mine"), &[(0, working_set(7.0, 1.0))]);
    recording.tables.extend([later, own]);
    assert!(csv(&recording, CsvColumns::Full).contains(",2,7.00,,,,\n"));
}

#[test]
fn an_empty_recording_has_a_header() {
    let csv = csv(&empty(), CsvColumns::Basic);
    assert_eq!(csv, "timestamp_seconds,memory_mb,cpu_percent\n");
    let long = text(|out| write_csv_long(&empty(), out).unwrap());
    assert_eq!(long, "time_seconds,table,column,step,value,writer\n");
    for format in Format::ALL {
        let mut bytes = Vec::new();
        format.write(&empty(), &mut bytes).unwrap();
        assert!(!bytes.is_empty(), "{format:?}");
    }
}

#[test]
fn a_counter_that_goes_back_never_gives_negative_cpu() {
    let mut recording = small();
    *column(&mut recording.tables[0], "cpu_nanos") = vec![9e7, 1e7, 6e7];
    let csv = csv(&recording, CsvColumns::Basic);
    assert!(csv.contains("0.100,23.45,0.0\n0.200,25.67,50.0\n"), "{csv}");
}

#[test]
fn a_missed_cpu_reading_is_empty_and_the_next_spans_it() {
    let mut recording = small();
    *column(&mut recording.tables[0], "cpu_nanos") = vec![0.0, ABSENT, 1e8];
    column(&mut recording.tables[0], "memory_bytes")[1] = ABSENT;
    let csv = csv(&recording, CsvColumns::Basic);
    assert!(csv.contains("0.100,,\n0.200,25.67,50.0\n"), "{csv}");
}

#[test]
fn the_log_of_a_run_has_the_same_rows() {
    /// What each write handed over.
    struct Writes<'a>(&'a mut Vec<String>);
    impl std::io::Write for Writes<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.push(String::from_utf8(bytes.to_vec()).unwrap());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut writes = Vec::new();
    let mut log = CsvLog::create(Writes(&mut writes)).unwrap();
    log.row(0, 22.26 * MIB, 0.0).unwrap();
    log.row(99_999_999, 23.45 * MIB, ABSENT).unwrap();
    drop(log);
    assert_eq!(
        writes,
        [
            "timestamp_seconds,memory_mb,cpu_percent\n",
            "0.000,22.26,0.0\n",
            "0.100,23.45,\n"
        ]
    );
}

/// A table as a program logs it: steps, a NaN of its own, an infinity, a gap.
fn metrics() -> Recording {
    let mut recording = empty();
    let name = "a,b".to_owned();
    let spec = TableSpec {
        subject: Subject::Metrics { name },
        columns: vec![Column::gauge("loss", Unit::Plain)],
        hold: false,
        rank: None,
    };
    let mut table = table(spec);
    for (time, loss) in [
        (1, 0.1),
        (2, f64::NAN),
        (3, f64::NEG_INFINITY),
        (4, ABSENT),
        (1_500_000_000, -2.0),
    ] {
        tick_values(&mut table, time, &[loss]);
    }
    table.steps = vec![10, 20, 30, 40, -50];
    recording.tables.push(table);
    recording
}

#[test]
fn json_has_nothing_that_acts_on_a_screen() {
    let odd = "a\u{202e}b\u{2066}c\u{200b}d\u{9b}e\u{1b}f\u{e0041}";
    let mut recording = metrics();
    recording.description.name = Some(odd.to_owned());
    recording.tables[0].writer = odd.to_owned();
    recording.damage = vec![odd.to_owned()];
    recording.events.push(nilo_sample::TimedEvent {
        time_nanos: 1,
        event: nilo_sample::Event::Mark {
            text: odd.to_owned(),
        },
    });
    let written = text(|out| write_json(&recording, out).unwrap());
    let is_shown = |c: char| c == '\n' || nilo_sample::printable::is_printable(c);
    assert!(written.chars().all(is_shown), "{written}");
    let json: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(json["run"]["name"], odd);
    assert_eq!(json["tables"][0]["writer"], odd);
    assert_eq!(json["damage"][0], odd);
    let events = json["events"].as_array().unwrap();
    assert_eq!(events.last().unwrap()["text"], odd);
}

#[test]
fn a_row_without_a_step_has_none_in_any_format() {
    let mut recording = metrics();
    recording.tables[0].steps[1] = i64::MIN;
    let long = text(|out| write_csv_long(&recording, out).unwrap());
    assert!(long.contains(",loss,,NaN,recorder-1\n"), "{long}");
    let written = text(|out| write_json(&recording, out).unwrap());
    let json: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(json["tables"][0]["steps"][1], serde_json::Value::Null);
    let reader = parquet(&recording);
    let rows = reader.get_row_iter(None).unwrap();
    let steps: Vec<bool> = rows
        .map(|row| *row.unwrap().get_column_iter().nth(3).unwrap().1 == Field::Null)
        .collect();
    assert_eq!(steps, [false, true, false, false, false]);
}

#[test]
fn two_writers_are_told_apart() {
    let mut recording = metrics();
    let mut second = recording.tables[0].clone();
    second.writer = "python-2".into();
    recording.tables.push(second);
    let long = text(|out| write_csv_long(&recording, out).unwrap());
    assert!(long.contains("0.1,recorder-1\n") && long.contains("0.1,python-2\n"));
    let reader = parquet(&recording);
    let rows = reader.get_row_iter(None).unwrap();
    let writers: Vec<String> = rows
        .map(|row| row.unwrap().get_string(5).unwrap().clone())
        .collect();
    assert_eq!(
        [writers[0].as_str(), writers[1].as_str()],
        ["recorder-1", "python-2"]
    );
}

#[test]
fn ranks_are_told_apart_where_there_are_any() {
    let mut recording = metrics();
    for rank in [0, 1] {
        let mut table = recording.tables[0].clone();
        table.spec.rank = Some(rank);
        recording.tables.push(table);
    }
    let long = text(|out| write_csv_long(&recording, out).unwrap());
    let lines: Vec<&str> = long.lines().collect();
    assert_eq!(lines[0], "time_seconds,table,column,step,value,writer,rank");
    let ranks = [lines[1], lines[2], lines[3]].map(|line| line.rsplit(',').next().unwrap());
    assert_eq!(ranks, ["", "0", "1"]);
    let reader = parquet(&recording);
    let rows = reader.get_row_iter(None).unwrap();
    let ranks: Vec<Field> = rows
        .map(|row| row.unwrap().get_column_iter().nth(6).unwrap().1.clone())
        .collect();
    assert_eq!(
        [&ranks[0], &ranks[1], &ranks[2]],
        [&Field::Null, &Field::Long(0), &Field::Long(1)]
    );
    let written = text(|out| write_json(&recording, out).unwrap());
    let json: serde_json::Value = serde_json::from_str(&written).unwrap();
    let ranks: Vec<_> = (0..3)
        .map(|table| json["tables"][table].get("rank"))
        .collect();
    assert_eq!(ranks, [None, Some(&0.into()), Some(&1.into())]);
}

/// One process logs `loss` alone and then with `lr`, which makes two tables, and another process logs in between.
#[test]
fn the_long_forms_have_each_metric_in_the_order_of_time() {
    let mut recording = empty();
    for (writer, names, times) in [
        ("python-1", &["loss"][..], &[1, 4, 9][..]),
        ("python-1", &["loss", "lr"], &[2, 6, 6]),
        ("python-2", &["loss"], &[3, 5]),
    ] {
        let spec = TableSpec::metrics("train", names.iter().copied());
        let mut table = table(spec);
        table.writer = writer.to_owned();
        for time in times {
            tick_values(&mut table, *time, &vec![*time as f64; names.len()]);
        }
        recording.tables.push(table);
    }
    let expected: Vec<(&str, u64)> = [1, 2, 3, 4, 5, 6, 6, 9]
        .map(|time| ("loss", time))
        .into_iter()
        .chain([2, 6, 6].map(|time| ("lr", time)))
        .collect();
    let long = text(|out| write_csv_long(&recording, out).unwrap());
    let lines: Vec<(&str, u64)> = long
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect::<Vec<&str>>())
        .map(|cells| (cells[2], cells[0].trim_start_matches("0.").parse().unwrap()))
        .collect();
    assert_eq!(lines, expected);
    let reader = parquet(&recording);
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    let rows: Vec<(String, i64)> = rows
        .map(|row| (row.get_string(2).unwrap().clone(), row.get_long(0).unwrap()))
        .collect();
    let rows: Vec<(&str, u64)> = rows
        .iter()
        .map(|(name, time)| (name.as_str(), *time as u64))
        .collect();
    assert_eq!(rows, expected);
}

#[test]
fn long_csv_loses_nothing() {
    let long = text(|out| write_csv_long(&metrics(), out).unwrap());
    assert_eq!(
        long,
        "time_seconds,table,column,step,value,writer\n\
         0.000000001,\"metrics:a,b\",loss,10,0.1,recorder-1\n\
         0.000000002,\"metrics:a,b\",loss,20,NaN,recorder-1\n\
         0.000000003,\"metrics:a,b\",loss,30,-inf,recorder-1\n\
         0.000000004,\"metrics:a,b\",loss,40,,recorder-1\n\
         1.500000000,\"metrics:a,b\",loss,-50,-2,recorder-1\n"
    );
}

#[test]
fn json_tells_absent_from_not_finite() {
    let mut recording = metrics();
    recording.events.push(mark(5, "epoch \"1\""));
    let written = text(|out| write_json(&recording, out).unwrap());
    let json: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(json["schema"], "nilo.recording/1");
    assert_eq!(json["run"]["host"], "box");
    let table = &json["tables"][0];
    assert_eq!(
        table["subject"],
        serde_json::json!({"type": "metrics", "name": "a,b"})
    );
    assert_eq!(table["times_nanos"][4], 1_500_000_000u64);
    assert_eq!(table["steps"], serde_json::json!([10, 20, 30, 40, -50]));
    assert_eq!(
        table["values"],
        serde_json::json!([[0.1, "NaN", "-Infinity", null, -2]])
    );
    assert_eq!(
        json["events"],
        serde_json::json!([{"time_nanos": 5, "event": "mark", "text": "epoch \"1\""}])
    );
}

fn parquet(recording: &Recording) -> SerializedFileReader<std::fs::File> {
    let file = tempfile::tempfile().unwrap();
    write_parquet(recording, file.try_clone().unwrap()).unwrap();
    SerializedFileReader::new(file).unwrap()
}

#[test]
fn parquet_reads_back() {
    let reader = parquet(&metrics());
    let metadata = reader.metadata().file_metadata();
    let pairs = metadata.key_value_metadata().unwrap();
    let value = |key: &str| {
        let pair = pairs.iter().find(|pair| pair.key == key).unwrap();
        pair.value.clone().unwrap()
    };
    assert_eq!(value("schema"), "nilo.recording/1");
    assert_eq!(value("run"), RunId::new(0, "job").as_str());
    let rows: Vec<_> = reader
        .get_row_iter(None)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(rows.len(), 5);
    assert_eq!(rows[4].get_long(0).unwrap(), 1_500_000_000);
    assert_eq!(rows[0].get_string(1).unwrap(), "metrics:a,b");
    assert_eq!(rows[0].get_string(2).unwrap(), "loss");
    assert_eq!(rows[4].get_long(3).unwrap(), -50);
    assert_eq!(rows[0].get_double(4).unwrap(), 0.1);
    assert!(rows[1].get_double(4).unwrap().is_nan());
    let absent = rows[3].get_column_iter().nth(4).unwrap().1;
    assert_eq!(*absent, Field::Null);
}

#[test]
fn parquet_splits_long_recordings_into_groups() {
    let mut recording = empty();
    let times: Vec<u64> = (0..300_000).map(|tick| tick * TENTH).collect();
    let mut spec = TableSpec::tree();
    spec.columns.truncate(1);
    recording.tables.push(RecordedTable {
        spec,
        writer: "recorder-1".into(),
        columns: vec![times.iter().map(|time| *time as f64).collect()],
        steps: vec![],
        times,
    });
    let reader = parquet(&recording);
    assert_eq!(reader.metadata().num_row_groups(), 2);
    assert_eq!(reader.metadata().file_metadata().num_rows(), 300_000);
    let last = reader.get_row_iter(None).unwrap().last().unwrap().unwrap();
    assert_eq!(*last.get_column_iter().nth(3).unwrap().1, Field::Null);
}

#[test]
fn formats_are_known_by_name() {
    assert_eq!("Parquet".parse::<Format>().unwrap(), Format::Parquet);
    let error = "xls".parse::<Format>().unwrap_err().to_string();
    assert_eq!(
        error,
        "not an export format: \"xls\" (known: csv, json, parquet, tensorboard)"
    );
}
