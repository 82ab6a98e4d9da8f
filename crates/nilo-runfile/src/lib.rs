//! The run folder: append, follow, recover, compact, downsample.
//!
//! A run is a folder with a description (`run.json`) and one stream of records for each process that writes.
//! The live end of a stream is a preallocated, memory-mapped segment; sealed segments become compressed columns with a min/max pyramid.
//! What was appended is readable after `kill -9`; a torn tail never hides what lies before it; a reader never blocks a writer; a full disk never disturbs the job.
//! `docs/run-format.md` specifies the bytes and names the test for each promise.
//!
//! Writing: [`RunFolder::create`], then [`RunWriter`]. Reading: [`RunFolder::load`], [`RunFolder::follow`], [`RunFolder::chart`].

mod attach;
mod attachment_folder;
mod attachments;
mod axis;
mod block;
mod blocks;
mod bytes;
mod chart;
mod checksum;
mod clock;
mod collect;
mod column;
mod compact;
mod contradicted_end;
mod derived;
mod description_file;
pub mod downsample;
mod error;
mod family;
mod filesystem;
pub mod find;
mod folder;
mod follow;
mod fork;
mod header;
mod hook_lines;
mod housekeeping;
mod joined_recorders;
mod known_marks;
mod known_streams;
mod load;
mod marks;
mod names;
mod opening;
mod options;
mod part_of_job;
mod pixel_fill;
mod pyramid;
mod read_stacks;
mod record;
mod run_curve;
mod run_processes;
mod run_writers;
mod scan;
mod segment;
mod sink;
mod stack_record;
mod thin;
mod unpack;
mod verify;
mod writer;
mod written_stacks;
mod zeroed;

pub use attach::{
    DEFAULT_MEDIA_TYPE, MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS, MAX_ATTACHMENTS_BYTES,
    StoredAttachment, is_attachment_name,
};
pub use attachments::{Attachment, AttachmentState};
pub use chart::TableSelector;
pub use clock::{boot_id, monotonic_nanos, unix_nanos};
pub use derived::{FilesState, Validity};
pub use downsample::{PixelColumn, Point};
pub use error::RunfileError;
pub use folder::{Access, DEFAULT_ROOT, RunFolder, check_root, list_runs};
pub use follow::{Follower, Update};
pub use header::{FORMAT_VERSION, HEADER_LEN};
pub use hook_lines::{
    HOOKS, HookLine, HookMessage, hook_lines_path, open_hook_lines, parse_hook_line,
};
pub use marks::{PreparedEvent, append_event, append_event_at};
pub use options::{WriteMode, WriterOptions};
pub use record::MAX_BODY_LEN;
pub use segment::MAX_SEGMENT_BYTES;
pub use sink::{RowBuffer, RowSink};
pub use verify::{FileKind, FileReport, Verification};
pub use writer::{RunWriter, TableId};
