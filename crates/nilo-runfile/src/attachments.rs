//! The attachments of a run on reading: what was told of each, and whether its file is that.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use nilo_sample::{Event, TimedEvent};

use crate::attach::is_attachment_name;
use crate::attachment_folder::{ATTACHMENTS, AttachmentFolder};
use crate::checksum;
use crate::error::RunfileError;
use crate::folder::RunFolder;

const READ_BYTES: usize = 64 << 10;

/// Whether an attachment's file is what was attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttachmentState {
    /// It is, to the last byte.
    Whole,
    /// There is none.
    Missing,
    /// It is another one.
    Changed {
        /// What is different.
        reason: String,
    },
    /// It is there, but nothing says that it is complete: it is being written, or its writer was killed.
    Unfinished,
    /// It could not be read.
    NotChecked {
        /// Why.
        reason: String,
    },
}

/// A file attached to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Its name.
    pub name: String,
    /// What it is, such as `image/png`; empty when unfinished.
    pub media_type: String,
    /// Its length when it was attached; as far as it came when unfinished.
    pub bytes: u64,
    /// The length of its file now; 0 when there is none that could be opened.
    pub stored_bytes: u64,
    /// Its CRC32C when it was attached; 0 when unfinished.
    pub crc32c: u32,
    /// When it was attached, in nanoseconds since the run began; 0 when unfinished.
    pub time_nanos: u64,
    /// Whether its file is what was attached.
    pub state: AttachmentState,
}

impl RunFolder {
    /// The files attached to this run, by name, each compared with what was told of it.
    pub fn attachments(&self) -> Result<Vec<Attachment>, RunfileError> {
        let events = self.load_alone(&|_| false)?.events;
        let folder = self
            .open_folder()
            .map_err(RunfileError::io("open the run", self.path()))?;
        check_attachments(&folder, self.path(), &events)
    }

    /// Opens an attachment for reading, no further than it was long when it was attached.
    pub fn open_attachment(&self, attachment: &Attachment) -> Result<io::Take<File>, RunfileError> {
        let path = self.path().join(ATTACHMENTS).join(&attachment.name);
        let opened = self.open_folder().and_then(|run| {
            let folder = AttachmentFolder::open(&run)?.ok_or(io::ErrorKind::NotFound)?;
            folder.open_file(&attachment.name)
        });
        let file = opened.map_err(RunfileError::io("open the attachment", &path))?;
        Ok(file.take(attachment.bytes))
    }
}

/// Compares the files of an open run folder with the events of the run; `run_dir` is for messages.
pub(crate) fn check_attachments(
    run: &File,
    run_dir: &Path,
    events: &[TimedEvent],
) -> Result<Vec<Attachment>, RunfileError> {
    let path = run_dir.join(ATTACHMENTS);
    let folder =
        AttachmentFolder::open(run).map_err(RunfileError::io("open the attachments", &path))?;
    // A writer tells of a name once; where a file says otherwise, the last word counts and the file is read once.
    let mut found: BTreeMap<String, Attachment> = BTreeMap::new();
    for timed in events {
        if let Some(told) = told_of(timed) {
            found.insert(told.name.clone(), told);
        }
    }
    for attachment in found.values_mut() {
        if let Some(folder) = &folder {
            attachment.state = compare(folder, attachment);
        }
    }
    let entries = folder.map_or(Ok(Vec::new()), |folder| folder.list());
    for entry in entries.map_err(RunfileError::io("list the attachments", &path))? {
        let name = intended_name(&entry.name);
        if let Some(name) = name.filter(|name| !found.contains_key(*name)) {
            let unfinished = Attachment {
                name: name.to_owned(),
                media_type: String::new(),
                bytes: entry.size_bytes,
                stored_bytes: entry.size_bytes,
                crc32c: 0,
                time_nanos: 0,
                state: AttachmentState::Unfinished,
            };
            found.insert(name.to_owned(), unfinished);
        }
    }
    Ok(found.into_values().collect())
}

fn told_of(timed: &TimedEvent) -> Option<Attachment> {
    let Event::Attachment {
        name,
        bytes,
        crc32c,
        media_type,
    } = &timed.event
    else {
        return None;
    };
    is_attachment_name(name).then(|| Attachment {
        name: name.clone(),
        media_type: media_type.clone(),
        bytes: *bytes,
        stored_bytes: 0,
        crc32c: *crc32c,
        time_nanos: timed.time_nanos,
        state: AttachmentState::Missing,
    })
}

/// The name that a file has, or that a draft (`.NAME.PID.TIME.tmp`) is meant to get.
fn intended_name(file_name: &str) -> Option<&str> {
    let name = match file_name.strip_prefix('.') {
        None => file_name,
        Some(draft) => {
            let (rest, _time) = draft.strip_suffix(".tmp")?.rsplit_once('.')?;
            rest.rsplit_once('.')?.0
        }
    };
    is_attachment_name(name).then_some(name)
}

/// Compares a file with what was told of it, and notes its length.
fn compare(folder: &AttachmentFolder, told: &mut Attachment) -> AttachmentState {
    let changed = |reason: &str| AttachmentState::Changed {
        reason: reason.to_owned(),
    };
    let file = match folder.open_file(&told.name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return AttachmentState::Missing,
        // What `O_NOFOLLOW` says of a link, and `open_file` of everything else that is no file.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput || is_link(&error) => {
            return changed("it is not a regular file");
        }
        Err(error) => {
            let reason = error.to_string();
            return AttachmentState::NotChecked { reason };
        }
    };
    let length = match file.metadata() {
        Ok(metadata) => metadata.len(),
        Err(error) => {
            let reason = error.to_string();
            return AttachmentState::NotChecked { reason };
        }
    };
    told.stored_bytes = length;
    if length != told.bytes {
        return changed(&format!("it has {length} bytes instead of {}", told.bytes));
    }
    match checksum_of(file.take(told.bytes)) {
        Ok(crc) if checksum::is_right(told.crc32c, crc) => AttachmentState::Whole,
        Ok(_) => changed("its checksum differs"),
        Err(error) => AttachmentState::NotChecked {
            reason: error.to_string(),
        },
    }
}

fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

fn checksum_of(mut file: impl Read) -> io::Result<u32> {
    let mut buffer = vec![0; READ_BYTES];
    let mut crc = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(crc),
            Ok(count) => crc = crc32c::crc32c_append(crc, &buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
