//! Attaching a file through a writer, which tells of it in its own stream.

use std::io::{self, Read};

use super::RunWriter;
use crate::attach;
use crate::clock;
use crate::error::RunfileError;
use crate::filesystem;

impl RunWriter {
    /// Attaches what a reader yields to the run, whole or not at all, and tells of it in this stream.
    /// It waits for the disk, unlike everything else here.
    pub fn attach(
        &mut self,
        name: &str,
        media_type: &str,
        reader: &mut dyn Read,
    ) -> Result<(), RunfileError> {
        let path = &self.folder;
        let run = filesystem::open_folder(path, self.folder_identity)
            .map_err(RunfileError::io("open the run", path))?;
        let stored = attach::store(&run, path, name, media_type, reader)?;
        if self.event(clock::monotonic_nanos(), stored.event()) {
            return Ok(());
        }
        stored.take_back();
        let reason = self.dropped_reason().unwrap_or_default().to_owned();
        let error = io::Error::new(io::ErrorKind::StorageFull, reason);
        Err(RunfileError::io(
            "write the attachment's event",
            &self.folder,
        )(error))
    }
}
