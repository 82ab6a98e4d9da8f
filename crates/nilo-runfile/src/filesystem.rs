//! What the file system below a run allows: mapping or only `write(2)`, and files opened so that nothing surprising is followed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::error::RunfileError;

/// File systems on which a shared mapping is not coherent between machines, or faults over a network.
/// Numbers from `linux/magic.h` and the file systems' own sources.
#[cfg(target_os = "linux")]
const NETWORK_FILE_SYSTEMS: [(u32, &str); 12] = [
    (0x0000_6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0000_517b, "smb"),
    (0x0bd0_0bd0, "lustre"),
    (0x6573_5546, "fuse"),
    (0x4750_4653, "gpfs"),
    (0x1983_0326, "beegfs"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "ceph"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "kafs"),
];

/// The name of the network file system that holds `path`, if it is one.
#[cfg(target_os = "linux")]
pub(crate) fn network_file_system(path: &Path) -> Option<&'static str> {
    let magic = rustix::fs::statfs(path).ok()?.f_type as u32;
    NETWORK_FILE_SYSTEMS
        .iter()
        .find(|(known, _)| *known == magic)
        .map(|(_, name)| *name)
}

/// Elsewhere nothing is known, and nothing is mapped.
#[cfg(not(target_os = "linux"))]
pub(crate) fn network_file_system(_path: &Path) -> Option<&'static str> {
    Some("unknown")
}

/// Reserves real blocks, so that a full disk is an error here and not a SIGBUS on the first store.
#[cfg(target_os = "linux")]
pub(crate) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    loop {
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}

/// Without `fallocate` there is no promise to map on.
#[cfg(not(target_os = "linux"))]
pub(crate) fn reserve(_file: &File, _bytes: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A file that did not exist before, readable and writable by us.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)
}

/// Opens a regular file for reading.
/// Links are not followed, and a FIFO in a hostile folder does not block.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ))
    }
}

/// Opens a folder to work in; one that has taken its place is refused.
pub(crate) fn open_folder(path: &Path, identity: (u64, u64)) -> io::Result<File> {
    let folder = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_CLOEXEC)
        .open(path)?;
    let metadata = folder.metadata()?;
    if (metadata.dev(), metadata.ino()) == identity {
        Ok(folder)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "another folder has taken its place",
        ))
    }
}

/// Reads at an offset until `buffer` is full or the file ends; returns how much.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads a small file whole, refusing one that is larger than `limit_bytes`.
pub(crate) fn read_limited(
    path: &Path,
    what: &'static str,
    limit_bytes: u64,
) -> Result<Vec<u8>, RunfileError> {
    let file = open_regular(path).map_err(RunfileError::io("open", path))?;
    let length = file
        .metadata()
        .map_err(RunfileError::io("look at", path))?
        .len();
    if length > limit_bytes {
        return Err(RunfileError::TooLarge {
            what,
            limit_bytes,
            path: path.to_owned(),
        });
    }
    let mut bytes = vec![0; length as usize];
    let filled = read_at(&file, &mut bytes, 0).map_err(RunfileError::io("read", path))?;
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifo_and_a_link_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(open_regular(&fifo).is_err());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        assert!(open_regular(&link).is_err());
        assert!(create_new(&link).is_err());
    }

    #[test]
    fn a_local_folder_is_not_a_network_file_system() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(network_file_system(folder.path()), None);
    }
}
