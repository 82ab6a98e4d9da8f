//! `nilo snapshot html`.

use std::io::Write;
use std::path::{Path, PathBuf};

use nilo_answer::snapshot::page::content::{PageRequest, SnapshotPage};

use super::file::{about_file, read_snapshot};
use crate::args::SnapshotHtmlArgs;
use crate::failure::{Failure, note};
use crate::output_file::{is_stdout, refuse_overwriting, write_file};
use crate::snapshot_page::write_page;

/// What names of snapshots end with.
const ENDINGS: [&str; 5] = ["gz", "zst", "zstd", "pickle", "pkl"];

pub(crate) fn run(args: SnapshotHtmlArgs) -> Result<u8, Failure> {
    let output = args.output.unwrap_or_else(|| page_name(&args.file));
    refuse_overwriting(&output, [&*args.file], "-o")?;
    let snapshot = read_snapshot(&args.file)?;
    let request = PageRequest {
        device: args.device,
        range: args.range.range(),
    };
    let file = args.file.display().to_string();
    let page = SnapshotPage::of(file, &snapshot, &request).map_err(about_file(&args.file))?;
    drop(snapshot);
    if is_stdout(&output) {
        let mut out = std::io::stdout().lock();
        write_page(&mut out, &page)?;
        out.flush()?;
        return Ok(0);
    }
    write_file(&output, |out| Ok(write_page(out, &page)?))?;
    note(&format!("wrote {}", output.display()));
    Ok(0)
}

/// `runs/rank0.pickle.gz` is `rank0.html`.
fn page_name(snapshot: &Path) -> PathBuf {
    let mut name = PathBuf::from(snapshot.file_name().unwrap_or_default());
    while name
        .extension()
        .is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known))
    {
        name.set_extension("");
    }
    let mut name = name.into_os_string();
    name.push(".html");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_named_after_the_snapshot() {
        for (snapshot, page) in [
            ("runs/rank0.pickle.gz", "rank0.html"),
            ("snapshot.pickle", "snapshot.html"),
            ("step.12.pkl.zst", "step.12.html"),
            ("oom", "oom.html"),
            (".gz", ".gz.html"),
        ] {
            assert_eq!(page_name(Path::new(snapshot)), PathBuf::from(page));
        }
    }
}
