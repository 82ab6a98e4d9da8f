//! The run folder: made, opened, described, read.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nilo_sample::{Recording, RunDescription, TableSpec};

use crate::attachment_folder::AttachmentFolder;
use crate::collect::RowsWanted;
use crate::description_file;
use crate::error::{RunfileError, json_reason};
use crate::family::{inner_writer, runs_inside};
use crate::filesystem;
use crate::follow::Follower;
use crate::known_marks::marks_now;
use crate::known_streams::streams_now;
use crate::names;
use crate::verify::{self, Verification};

/// The folder of runs where nobody says another.
pub const DEFAULT_ROOT: &str = ".nilo";
/// Permission of everybody to write, and the bit that lets only owners rename and delete, as in `/tmp`.
const EVERYBODY_WRITES: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// `run.json` is a page of text; more than this is not one of ours.
const MAX_DESCRIPTION_BYTES: u64 = 8 << 20;

/// The end of a run that took this long is synced to disk; the beginning is synced by the writer's housekeeping.
const SYNC_FROM_NANOS: u64 = 5_000_000_000;

/// Who may look into the folders that are made for runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Access {
    /// The user alone: command lines, settings and marks may tell more than was meant.
    #[default]
    Private,
    /// Whoever the umask allows.
    Shared,
}

/// One run's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder {
    path: PathBuf,
    /// Device and inode: what takes the folder's place later is not it.
    identity: (u64, u64),
}

impl RunFolder {
    /// Makes the folder of a run below `root`, and `root` itself, with a `.gitignore`, where that is missing. Nobody else can read them.
    pub fn create(root: &Path, description: &RunDescription) -> Result<RunFolder, RunfileError> {
        RunFolder::create_for(Access::Private, root, description)
    }

    /// The same, for whom the caller says. A root that is there already stays as it is.
    pub fn create_for(
        access: Access,
        root: &Path,
        description: &RunDescription,
    ) -> Result<RunFolder, RunfileError> {
        let mut builder = DirBuilder::new();
        if access == Access::Private {
            builder.mode(0o700);
        }
        check_root(root)?;
        let is_new = make_root(root, &builder).map_err(|error| match in_the_way(root) {
            Some(path) => RunfileError::NotAFolder { path },
            None => RunfileError::io("create the folder", root)(error),
        })?;
        if is_new {
            write_gitignore(root);
        }
        let path = root.join(description.id.as_str());
        builder.create(&path).map_err(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                RunfileError::AlreadyExists { path: path.clone() }
            } else {
                RunfileError::io("create the folder", &path)(error)
            }
        })?;
        let made = fs::symlink_metadata(&path).map_err(RunfileError::io("open the run", &path))?;
        let folder = RunFolder {
            path,
            identity: (made.dev(), made.ino()),
        };
        if let Err(error) = folder.write_description(description) {
            // A folder without a description is no run, and would be complained of for ever.
            fs::remove_dir_all(&folder.path).ok();
            return Err(error);
        }
        Ok(folder)
    }

    /// Opens an existing run.
    pub fn open(path: &Path) -> Result<RunFolder, RunfileError> {
        let metadata = fs::metadata(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => RunfileError::NotFound {
                path: path.to_owned(),
            },
            _ => RunfileError::io("open the run", path)(error),
        })?;
        let refuse = |reason| {
            Err(RunfileError::NotARunFolder {
                reason,
                path: path.to_owned(),
            })
        };
        if !metadata.is_dir() {
            return refuse("it is a file");
        }
        match fs::symlink_metadata(path.join(names::DESCRIPTION)) {
            Ok(described) if described.is_file() => Ok(RunFolder {
                path: path.to_owned(),
                identity: (metadata.dev(), metadata.ino()),
            }),
            Ok(_) => refuse("`run.json` is not a file"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => refuse("no `run.json` in it"),
            Err(error) => Err(RunfileError::io("open the run", path)(error)),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads `run.json`.
    pub fn describe(&self) -> Result<RunDescription, RunfileError> {
        let path = self.path.join(names::DESCRIPTION);
        let bytes =
            filesystem::read_limited(&path, "the run's description", MAX_DESCRIPTION_BYTES)?;
        parse_description(&bytes).map_err(|error| RunfileError::BadDescription {
            reason: json_reason(&error),
            path,
        })
    }

    /// Replaces `run.json` in one step: readers see the one or the other, never half.
    /// Nothing is written when another folder or a link has taken this one's place.
    pub fn write_description(&self, description: &RunDescription) -> Result<(), RunfileError> {
        let path = self.path.join(names::DESCRIPTION);
        let mut described = description.clone();
        if described.ending.is_some() {
            for (writer, segments) in streams_now(&self.path) {
                let known = described.streams.entry(writer).or_default();
                *known = segments.max(*known);
            }
            described.marks_bytes = described.marks_bytes.max(marks_now(&self.path));
        }
        let mut bytes =
            serde_json::to_vec_pretty(&described).map_err(|source| RunfileError::Encode {
                path: path.clone(),
                source,
            })?;
        bytes.push(b'\n');
        // Renaming an unsynced file can leave an empty one after a power cut on some file systems.
        // A sync may take 10 ms, though, which a short run should not pay for.
        let sync =
            matches!(&description.ending, Some(ending) if ending.time_nanos >= SYNC_FROM_NANOS);
        self.open_folder()
            .and_then(|folder| description_file::replace(&folder, &bytes, sync))
            .map_err(RunfileError::io("write the run's description", &path))
    }

    /// The folder to write in; one that has taken its place is refused.
    pub(crate) fn open_folder(&self) -> io::Result<File> {
        filesystem::open_folder(&self.path, self.identity)
    }

    /// Reads everything, with what the job of a run inside a job recorded of it. Damage is listed in the recording and never hides what is whole.
    pub fn load(&self) -> Result<Recording, RunfileError> {
        self.load_where(&|_| true)
    }

    /// Reads the tables that `keep` wants, and all events.
    pub fn load_where(&self, keep: &dyn Fn(&TableSpec) -> bool) -> Result<Recording, RunfileError> {
        self.load_related(keep, RowsWanted::All)
    }

    /// Reads one column of the tables that `keep` wants and that have it, and all events.
    /// The tables come out with that column alone.
    pub fn load_column(
        &self,
        column: &str,
        keep: &dyn Fn(&TableSpec) -> bool,
    ) -> Result<Recording, RunfileError> {
        self.load_related(keep, RowsWanted::Column(column))
    }

    /// Reads the tables that `keep` wants as a picture needs them, and all events, without having all rows in memory.
    ///
    /// Large tables of a kind that is drawn are thinned to `pixels` columns of pixels: every column keeps its extremes and, where it is highest, the whole row.
    /// Times are exact to half a pixel, and steps are left out. `Recording::thinned_nanos` says how wide a pixel is.
    pub fn load_thinned(
        &self,
        pixels: usize,
        keep: &dyn Fn(&TableSpec) -> bool,
    ) -> Result<Recording, RunfileError> {
        self.load_related(keep, RowsWanted::Thinned { pixels })
    }

    /// Checks every byte of every file.
    pub fn verify(&self) -> Result<Verification, RunfileError> {
        let mut found = verify::verify(&self.path, self.describe())?;
        for run in self.runs_inside() {
            let inside = verify::verify(&run.path, run.describe())?;
            found.ok &= inside.ok;
            found.files.extend(inside.files.into_iter().map(|mut file| {
                file.name = inner_writer(&run.path, &file.name);
                file
            }));
        }
        Ok(found)
    }

    /// What the folder takes on disk, preallocated space included; 0 when it cannot be listed.
    pub fn size_bytes(&self) -> u64 {
        let Ok(entries) = fs::read_dir(&self.path) else {
            return 0;
        };
        let sizes = entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len()));
        let inside = self.runs_inside().into_iter().map(|run| run.size_bytes());
        let attached = self
            .open_folder()
            .and_then(|run| match AttachmentFolder::open(&run)? {
                Some(folder) => folder.list(),
                None => Ok(Vec::new()),
            });
        let attached = attached.unwrap_or_default().into_iter();
        sizes
            .chain(inside)
            .chain(attached.map(|entry| entry.size_bytes))
            .sum()
    }

    /// The files that the run was written into, without those of runs inside it and attachments.
    pub fn files(&self) -> Vec<PathBuf> {
        let listed = names::list(&self.path).unwrap_or_default();
        let streams = listed.streams.into_values();
        let streams =
            streams.flat_map(|stream| stream.segments.into_values().chain(stream.compacted));
        let description = self.path.join(names::DESCRIPTION);
        streams.chain(listed.marks).chain([description]).collect()
    }

    /// Follows the run while it is written, from its beginning.
    pub fn follow(&self) -> Follower {
        Follower::new(&self.path)
    }
}

/// Reads the bytes of a `run.json`.
pub(crate) fn parse_description(bytes: &[u8]) -> Result<RunDescription, serde_json::Error> {
    serde_json::from_slice(bytes)
}

/// Whether runs may be written and deleted here. A folder of the default name is found, not named by the user: a link may come from a cloned repository
/// and lead anywhere, and who owns a folder, or may write to it, can read, change and replace what we put there.
pub fn check_root(root: &Path) -> Result<(), RunfileError> {
    if root != Path::new(DEFAULT_ROOT) {
        return Ok(());
    }
    let path = root.to_owned();
    if let Ok(target) = fs::read_link(root) {
        return Err(RunfileError::LinkedRoot { path, target });
    }
    let Ok(folder) = fs::symlink_metadata(root) else {
        return Ok(());
    };
    let (uid, mode) = (folder.uid(), folder.mode() & 0o7777);
    let is_writable = mode & EVERYBODY_WRITES != 0 && mode & STICKY == 0;
    match folder.is_dir() {
        true if !is_trusted_owner(uid) => Err(RunfileError::StrangersRoot { path, uid }),
        true if is_writable => Err(RunfileError::WritableRoot { path, mode }),
        _ => Ok(()),
    }
}

/// We, the administrator, and whoever became the administrator by `sudo`: as git decides whose repository it works in.
fn is_trusted_owner(uid: u32) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    let invoking = || std::env::var("SUDO_UID").ok()?.parse::<u32>().ok();
    uid == ours || uid == 0 || ours == 0 && invoking() == Some(uid)
}

/// Makes the root where it is missing, and says whether it did. Folders above it are made as the umask says: they are not ours.
fn make_root(root: &Path, builder: &DirBuilder) -> io::Result<bool> {
    match builder.create(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(parent) = root.parent() {
                fs::create_dir_all(parent)?;
            }
            builder.create(root)
        }
        outcome => outcome,
    }
    .map(|()| true)
    .or_else(|error| match root.is_dir() {
        true => Ok(false),
        false => Err(error),
    })
}

/// What stands at the path of a folder, or above it, and is none; a link that leads nowhere or in a circle is none either.
fn in_the_way(root: &Path) -> Option<PathBuf> {
    let is_there = |path: &&Path| path.symlink_metadata().is_ok();
    let lowest = root.ancestors().find(is_there)?;
    let is_folder = match fs::metadata(lowest) {
        Ok(found) => found.is_dir(),
        Err(error) => {
            let circle = rustix::io::Errno::LOOP.raw_os_error();
            error.kind() != io::ErrorKind::NotFound && error.raw_os_error() != Some(circle)
        }
    };
    (!is_folder).then(|| lowest.to_owned())
}

/// Keeps recordings out of the user's repository. A root that cannot hold it is no reason not to record.
fn write_gitignore(root: &Path) {
    let path = root.join(".gitignore");
    if let Ok(mut file) = filesystem::create_new(&path) {
        let _ = file.write_all(b"*\n");
    }
}

/// The runs below a root, by id; links are none of them. A run that cannot be opened is an error in its place, followed by the runs inside it.
pub fn list_runs(root: &Path) -> Vec<Result<RunFolder, RunfileError>> {
    let Ok(entries) = fs::read_dir(root) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            // Not followed: a link may lead to another run of this folder, or out of it.
            let is_run = !is_hidden && entry.file_type().ok()?.is_dir();
            is_run.then(|| entry.path())
        })
        .collect();
    paths.sort();
    let opened = paths.iter().flat_map(|path| {
        let inside = runs_inside(path);
        let opened = RunFolder::open(path).and_then(|folder| match inside.is_empty() {
            true => Ok(folder),
            false => folder.describe().map(|_| folder),
        });
        let orphans = if opened.is_ok() { vec![] } else { inside };
        std::iter::once(opened).chain(orphans.into_iter().map(Ok))
    });
    opened.collect()
}
