//! Any records as a segment, beside files of any name in `attachments/`: stacks stay bounded, attachments stay in their folder.
//!
//! The input is a list of chunks, each with its length in front. The first byte of a chunk chooses what it is: a stack, a row, an event, any
//! kind of record, or a file to attach. Unlike in `run_folder`, every record has its right place, so that the bytes reach the new parsers at once.

#![no_main]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nilo_runfile::{AttachmentState, RunFolder, RunWriter, WriterOptions};
use nilo_sample::MAX_STACK_DEPTH;

const DESCRIPTION: &str = r#"{"schema":"nilo.run/1","id":"fuzz","mode":"run","started_unix_nanos":1794729330417000000,"started_monotonic_nanos":1000000000000}"#;
const TABLE: &[u8] = br#"{"subject":{"type":"phase","name":"x"},"columns":[{"name":"stack_id","unit":"count","kind":"gauge"}],"hold":false}"#;

/// One folder for each fuzzing process, in memory, and the header of a segment.
static FOLDER: LazyLock<(PathBuf, Vec<u8>)> = LazyLock::new(|| {
    let folder = Path::new("/dev/shm").join(format!("nilo-fuzz-stacks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder in memory");
    std::fs::write(folder.join("run.json"), DESCRIPTION).expect("space in memory");
    let writer = RunWriter::create(&folder, "w", WriterOptions::default()).expect("a writer");
    let path = folder.join(format!("{}.0000.nilo", writer.name()));
    let header = std::fs::read(&path).expect("a segment")[..128].to_vec();
    writer.close();
    std::fs::remove_file(path).expect("a segment");
    (folder, header)
});

fn push_record(segment: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let word = (kind & 0xff) << 20 | body.len() as u32;
    segment.extend(word.to_le_bytes());
    segment.extend(crc32c::crc32c_append(word, body).to_le_bytes());
    segment.extend(body);
    segment.resize(segment.len().next_multiple_of(4), 0);
}

fuzz_target!(|data: &[u8]| {
    let (folder, header) = &*FOLDER;
    let attachments = folder.join("attachments");
    let mut segment = header.clone();
    push_record(&mut segment, 2, &[&0u32.to_le_bytes(), TABLE].concat());
    let mut rest = data;
    let mut files = 0;
    while let Some((len, after)) = rest.split_first() {
        let (chunk, after) = after.split_at(after.len().min(usize::from(*len)));
        rest = after;
        let Some((choice, body)) = chunk.split_first() else {
            continue;
        };
        match choice % 5 {
            0 => push_record(&mut segment, 4, body),
            1 if body.len() >= 8 => {
                push_record(&mut segment, 1, &[&[0; 12], &body[..8]].concat());
            }
            2 => push_record(&mut segment, 3, &[&[0; 8], body].concat()),
            3 => push_record(&mut segment, u32::from(*choice / 5), body),
            _ => {
                let name = String::from_utf8_lossy(body).replace(['/', '\0'], "_");
                if files < 8 && !matches!(name.as_str(), "" | "." | "..") && name.len() < 200 {
                    files += 1;
                    std::fs::create_dir_all(&attachments).expect("space in memory");
                    std::fs::write(attachments.join(name), body).expect("space in memory");
                }
            }
        }
    }
    std::fs::write(folder.join("w-1.0000.nilo"), &segment).expect("space in memory");
    let run = RunFolder::open(folder).expect("a run");
    let recording = run.load().expect("damage is not an error");
    for table in &recording.tables {
        for value in &table.columns[0] {
            if let Some(stack) = recording.stacks.find(*value) {
                assert!((1..=MAX_STACK_DEPTH).contains(&recording.stacks.frames(stack).count()));
            }
        }
    }
    let mut follower = run.follow();
    let _ = follower.poll();
    // It stops before bytes that may yet become a record.
    assert!(follower.stacks().len() <= recording.stacks.len());
    for attachment in run.attachments().expect("a folder of files") {
        if attachment.state != AttachmentState::Missing
            && let Ok(mut file) = run.open_attachment(&attachment)
        {
            let read = std::io::copy(&mut file, &mut std::io::sink()).expect("readable");
            assert!(read <= attachment.bytes);
        }
    }
    let _ = run.verify();
    if files > 0 {
        let _ = std::fs::remove_dir_all(&attachments);
    }
});
