//! A buffer in a file.
//!
//! `NILOBUF` and the version, then sections with checksums: a description as JSON, the logs, the priorities, an empty one at the end.
//! Under its own name there is always a whole file: the old one or the new one.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::block::check_spill_folder;
use crate::error::BufferError;
use crate::log_file::{read_rows, read_store, write_rows, write_store};
use crate::replaced_file::ReplacedFile;
use crate::replay::ReplayStore;
use crate::sections::{BadSection, SectionReader, write_bytes, write_json, write_words};
use crate::settings::ReplaySettings;

const MAGIC: &[u8; 8] = b"NILOBUF\x01";

#[derive(Serialize, Deserialize)]
struct Description {
    settings: ReplaySettings,
    first: u64,
    next: u64,
    dropped_for_memory: u64,
    /// For each part of the observations and each environment, the number of the latest next observation.
    latest: Vec<Vec<Option<u64>>>,
    most_priority: Option<f32>,
    note: String,
}

/// What a file may not say of the machine it is loaded on.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// Bytes in memory; otherwise those of the file.
    pub max_bytes: Option<usize>,
    /// Where segments go that do not fit into memory.
    pub spill_folder: Option<PathBuf>,
}

impl ReplayStore {
    /// Saves everything, with a note for whoever loads it.
    pub fn save(&self, path: &Path, note: &str) -> Result<(), BufferError> {
        let failed = |action| {
            move |source| BufferError::Io {
                action,
                path: path.to_owned(),
                source,
            }
        };
        let replaced = ReplacedFile::of(path).map_err(failed("save the buffer"))?;
        let written = replaced.write(|file| {
            let mut out = BufWriter::with_capacity(1 << 20, file);
            self.write(&mut out, note).and_then(|()| out.flush())
        });
        written.map_err(failed("save the buffer"))
    }

    /// Writes the file's contents.
    pub fn write(&self, out: &mut dyn Write, note: &str) -> io::Result<()> {
        out.write_all(MAGIC)?;
        let latest_of = |column: &crate::observations::ObservationColumn| {
            column
                .environments
                .iter()
                .map(|log| log.latest_id)
                .collect()
        };
        let description = Description {
            settings: self.settings.clone(),
            first: self.first,
            next: self.next,
            dropped_for_memory: self.dropped_for_memory,
            latest: self.observations.iter().map(latest_of).collect(),
            most_priority: self.priorities.as_ref().map(|priorities| priorities.most()),
            note: note.to_owned(),
        };
        write_json(out, &description)?;
        for column in &self.observations {
            for log in &column.environments {
                write_store(out, &log.store)?;
            }
            write_rows(out, &column.ids)?;
            write_rows(out, &column.steps)?;
        }
        for column in self.columns.iter().chain([&self.rewards, &self.flags]) {
            write_rows(out, column)?;
        }
        if let Some(priorities) = &self.priorities {
            let capacity = self.capacity() as u64;
            let raised = self
                .rows()
                .map(|row| priorities.tree.get((row % capacity) as usize).to_bits());
            write_words(out, &raised.collect::<Vec<u32>>())?;
        }
        write_bytes(out, b"")
    }

    /// Loads a file, with the note that was saved in it.
    pub fn load(path: &Path, options: &LoadOptions) -> Result<(ReplayStore, String), BufferError> {
        let failed = |source| BufferError::Io {
            action: "open the buffer",
            path: path.to_owned(),
            source,
        };
        if let Some(folder) = &options.spill_folder {
            check_spill_folder(folder)?;
        }
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let input = BufReader::with_capacity(1 << 20, file);
        ReplayStore::read_from(input, length, options).map_err(|reason| BufferError::File {
            reason,
            path: path.to_owned(),
        })
    }

    /// Reads a file's contents; in one sentence, what is wrong with them.
    pub fn read_from(
        input: impl Read,
        length: u64,
        options: &LoadOptions,
    ) -> Result<(ReplayStore, String), String> {
        let mut input = SectionReader::new(input, length);
        let mut magic = [0; 8];
        input.exact(&mut magic).map_err(|error| error.to_string())?;
        if magic[..7] != MAGIC[..7] {
            return Err("it is not a buffer".to_owned());
        }
        if magic != *MAGIC {
            return Err(format!(
                "its version is {}; this program reads version {}",
                magic[7], MAGIC[7]
            ));
        }
        let description: Description = input.json().map_err(|error| error.to_string())?;
        let settings = ReplaySettings {
            max_bytes: options.max_bytes.or(description.settings.max_bytes),
            spill_folder: options.spill_folder.clone(),
            ..description.settings.clone()
        };
        let mut store = ReplayStore::new(settings).map_err(|error| error.to_string())?;
        store
            .fill(&mut input, &description)
            .map_err(|error| error.to_string())?;
        store.dropped_before_loading = store.dropped_for_memory;
        store.keep_budget();
        Ok((store, description.note))
    }

    fn fill(
        &mut self,
        input: &mut SectionReader<impl Read>,
        description: &Description,
    ) -> Result<(), BadSection> {
        let wrong = |_| BadSection::Meaning("a latest observation is not there");
        let counts = BadSection::Meaning("columns have different numbers of rows");
        if description.latest.len() != self.observations.len() {
            return Err(counts);
        }
        for (column, latest) in self.observations.iter_mut().zip(&description.latest) {
            if latest.len() != column.environments.len() {
                return Err(counts);
            }
            for (log, &latest) in column.environments.iter_mut().zip(latest) {
                read_store(input, &mut log.store)?;
                log.restore_latest(latest, &self.cache).map_err(wrong)?;
            }
            read_rows(input, &mut column.ids)?;
            read_rows(input, &mut column.steps)?;
        }
        for column in self
            .columns
            .iter_mut()
            .chain([&mut self.rewards, &mut self.flags])
        {
            read_rows(input, column)?;
        }
        (self.first, self.next, self.dropped_for_memory) = (
            description.first,
            description.next,
            description.dropped_for_memory,
        );
        if !self.rows_agree() {
            return Err(counts);
        }
        self.fill_priorities(input, description.most_priority)?;
        match input.bytes()?.is_empty() && input.is_at_end() {
            true => Ok(()),
            false => Err(BadSection::Meaning("something follows the end")),
        }
    }

    /// Whether all columns have the same rows, in whole steps.
    fn rows_agree(&self) -> bool {
        let links = self
            .observations
            .iter()
            .flat_map(|column| [&column.ids, &column.steps]);
        let mut logs = links
            .chain(&self.columns)
            .chain([&self.rewards, &self.flags]);
        let environments = self.settings.environments as u64;
        logs.all(|log| log.next() == self.next && log.first() <= self.first)
            && self.first <= self.next
            && self.next - self.first <= self.capacity() as u64
            && self.first.is_multiple_of(environments)
            && self.next.is_multiple_of(environments)
    }

    fn fill_priorities(
        &mut self,
        input: &mut SectionReader<impl Read>,
        most: Option<f32>,
    ) -> Result<(), BadSection> {
        let (capacity, rows) = (self.capacity() as u64, self.rows());
        let Some(priorities) = &mut self.priorities else {
            return Ok(());
        };
        let wrong =
            BadSection::Meaning("priorities are not positive numbers, one for each transition");
        let raised = input.words()?;
        if raised.len() as u64 != rows.end - rows.start {
            return Err(wrong);
        }
        let places = rows.map(|row| (row % capacity) as usize);
        let raised = places.zip(raised.into_iter().map(f32::from_bits));
        most.and_then(|most| priorities.restore(most, raised))
            .ok_or(wrong)
    }
}
