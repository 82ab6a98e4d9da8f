//! Attaching a file to a run: whole or not at all, and then an event that says what it is.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use nilo_sample::Event;

use crate::attachment_folder::{ATTACHMENTS, AttachmentFolder};
use crate::clock;
use crate::error::RunfileError;
use crate::folder::RunFolder;
use crate::marks;

/// The largest attachment. A snapshot of PyTorch's allocator with 100,000 events has 30 MB; what is larger than this is a data set, or a mistake.
pub const MAX_ATTACHMENT_BYTES: u64 = 256 << 20;
/// All attachments of a run together: a folder of a hundred runs still fits on a laptop.
pub const MAX_ATTACHMENTS_BYTES: u64 = 1 << 30;
/// How many a run may have: each time they are all looked at, which takes 10 ms for so many.
pub const MAX_ATTACHMENTS: usize = 10_000;
/// The longest name.
const MAX_NAME_LEN: usize = 100;
/// The longest media type.
const MAX_MEDIA_TYPE_LEN: usize = 100;
/// What is attached without a media type.
pub const DEFAULT_MEDIA_TYPE: &str = "application/octet-stream";

const COPY_BYTES: usize = 64 << 10;

impl RunFolder {
    /// Attaches what a reader yields, from any process; the event goes to the run's marks.
    pub fn attach(
        &self,
        name: &str,
        media_type: &str,
        reader: &mut dyn Read,
    ) -> Result<(), RunfileError> {
        let stored = self.store_attachment(name, media_type, reader)?;
        let told = marks::append_event(self.path(), stored.event());
        if told.is_err() {
            stored.take_back();
        }
        told
    }

    /// Stores a file without telling of it: for whoever has a writer, and does not want to hold it while the bytes come.
    pub fn store_attachment(
        &self,
        name: &str,
        media_type: &str,
        reader: &mut dyn Read,
    ) -> Result<StoredAttachment, RunfileError> {
        let folder = self
            .open_folder()
            .map_err(RunfileError::io("open the run", self.path()))?;
        store(&folder, self.path(), name, media_type, reader)
    }
}

/// Whether an attachment may have this name: 1 to 100 letters, digits, `.`, `_` and `-`, and no dot in front.
pub fn is_attachment_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_NAME_LEN).contains(&name.len())
        && name.bytes().all(is_allowed)
        && !name.starts_with('.')
}

fn is_media_type(text: &str) -> bool {
    let is_printable = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    text.len() <= MAX_MEDIA_TYPE_LEN && text.contains('/') && text.bytes().all(is_printable)
}

/// A file that has its name. It is attached once its event is in a stream of the run.
#[must_use = "the file counts only once its event is stored"]
pub struct StoredAttachment {
    event: Event,
    folder: AttachmentFolder,
    name: String,
}

impl StoredAttachment {
    /// What to tell of it.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Removes a file that could not be told of.
    pub fn take_back(&self) {
        self.folder.remove(&self.name);
    }
}

/// Stores a file in an open run folder; `run_dir` is for messages.
pub(crate) fn store(
    run: &File,
    run_dir: &Path,
    name: &str,
    media_type: &str,
    reader: &mut dyn Read,
) -> Result<StoredAttachment, RunfileError> {
    if !is_attachment_name(name) {
        return Err(RunfileError::BadAttachmentName {
            name: name.to_owned(),
        });
    }
    if !is_media_type(media_type) {
        return Err(RunfileError::BadMediaType {
            text: media_type.to_owned(),
        });
    }
    let path = run_dir.join(ATTACHMENTS).join(name);
    let io = |action| RunfileError::io(action, &path);
    let folder = AttachmentFolder::open_or_create(run).map_err(io("create the attachment"))?;
    let room = room_for_another(&folder, &path)?;
    // Looked at before the work; `publish` looks again.
    if folder.has(name) {
        return Err(RunfileError::AttachmentExists { path });
    }
    let draft = format!(
        ".{name}.{}.{}.tmp",
        std::process::id(),
        clock::monotonic_nanos()
    );
    let file = folder
        .create_draft(&draft)
        .map_err(io("create the attachment"))?;
    let copied = copy(reader, &file, room, &path).and_then(|copied| {
        file.sync_all().map_err(io("write the attachment"))?;
        Ok(copied)
    });
    let published = copied.and_then(|copied| {
        folder.publish(&draft, name).map_err(|error| {
            match error.kind() == io::ErrorKind::AlreadyExists {
                true => RunfileError::AttachmentExists { path: path.clone() },
                false => io("write the attachment")(error),
            }
        })?;
        Ok(copied)
    });
    match published {
        Ok(Copied { bytes, crc32c }) => Ok(StoredAttachment {
            event: Event::Attachment {
                name: name.to_owned(),
                bytes,
                crc32c,
                media_type: media_type.to_owned(),
            },
            folder,
            name: name.to_owned(),
        }),
        Err(error) => {
            folder.remove(&draft);
            Err(error)
        }
    }
}

/// What may still be attached. Processes that attach at the same moment do not wait for each other, and may exceed the run's limit by one file each.
fn room_for_another(folder: &AttachmentFolder, path: &Path) -> Result<AllowedSize, RunfileError> {
    let entries = folder
        .list()
        .map_err(RunfileError::io("list the attachments", path))?;
    if entries.len() >= MAX_ATTACHMENTS {
        return Err(RunfileError::TooManyAttachments {
            most: MAX_ATTACHMENTS,
            path: path.to_owned(),
        });
    }
    let taken: u64 = entries.iter().map(|entry| entry.size_bytes).sum();
    let left = MAX_ATTACHMENTS_BYTES.saturating_sub(taken);
    Ok(match left < MAX_ATTACHMENT_BYTES {
        true => AllowedSize {
            bytes: left,
            what: "the sum of the run's attachments",
            limit_bytes: MAX_ATTACHMENTS_BYTES,
        },
        false => AllowedSize {
            bytes: MAX_ATTACHMENT_BYTES,
            what: "the attachment",
            limit_bytes: MAX_ATTACHMENT_BYTES,
        },
    })
}

/// How much may come, and which limit that is.
struct AllowedSize {
    bytes: u64,
    what: &'static str,
    limit_bytes: u64,
}

struct Copied {
    bytes: u64,
    crc32c: u32,
}

fn copy(
    reader: &mut dyn Read,
    mut file: &File,
    room: AllowedSize,
    path: &Path,
) -> Result<Copied, RunfileError> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut copied = Copied {
        bytes: 0,
        crc32c: 0,
    };
    loop {
        let count = match reader.read(&mut buffer) {
            Ok(0) => return Ok(copied),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(RunfileError::io("read the bytes for", path)(error)),
        };
        copied.bytes += count as u64;
        if copied.bytes > room.bytes {
            return Err(RunfileError::TooLarge {
                what: room.what,
                limit_bytes: room.limit_bytes,
                path: path.to_owned(),
            });
        }
        copied.crc32c = crc32c::crc32c_append(copied.crc32c, &buffer[..count]);
        file.write_all(&buffer[..count])
            .map_err(RunfileError::io("write the attachment", path))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_lead_elsewhere_are_refused() {
        for good in ["a", "snapshot.pickle", "loss-curve_2.png", "a..b"] {
            assert!(is_attachment_name(good), "{good}");
        }
        let long = "x".repeat(101);
        for bad in ["", ".", "..", ".hidden", "a/b", "a b", "ä", "a\0", &long] {
            assert!(!is_attachment_name(bad), "{bad:?}");
        }
        assert!(is_attachment_name(&long[..100]));
    }
}
