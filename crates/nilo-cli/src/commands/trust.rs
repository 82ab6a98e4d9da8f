//! `nilo trust`: approve a project's settings file, or take that back.

use std::io::Write;
use std::path::{Path, PathBuf};

use nilo_sample::printable::printable;
use nilo_settings::{Approvals, SettingsFile, nearest, parse, read_found, read_linked_root};

use crate::args::TrustArgs;
use crate::failure::{Failure, note};

pub(crate) fn run(args: TrustArgs) -> Result<u8, Failure> {
    let approvals = Approvals::of_user().ok_or_else(|| {
        Failure::new("no folder to store approvals in").hint("set HOME or XDG_STATE_HOME")
    })?;
    if args.revoke {
        let path = match args.file {
            Some(path) => within(path),
            None => find()?.path,
        };
        return revoke(&approvals, &path);
    }
    if let Some(link) = args.file.as_deref().and_then(read_linked_root) {
        approvals.add(&link)?;
        let (path, target) = (
            link.path.to_string_lossy(),
            String::from_utf8_lossy(&link.bytes),
        );
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "approved {} -> {}",
            printable(&path),
            printable(&target)
        )?;
        return Ok(0);
    }
    let file = match args.file {
        Some(path) => open(&within(path))?,
        None => find()?,
    };
    let settings = parse(&file).map_err(|error| {
        let hint = error.hint();
        Failure::from(error).hint(hint)
    })?;
    approvals.add(&file)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "approved {}", printable(&file.path.to_string_lossy()))?;
    for (name, value) in settings.needing_approval() {
        writeln!(out, "  {name} = {}", printable(&value))?;
    }
    Ok(0)
}

fn revoke(approvals: &Approvals, path: &Path) -> Result<u8, Failure> {
    match approvals.revoke(path)? {
        0 => note(&format!("{} was not approved", path.display())),
        _ => {
            let mut out = std::io::stdout().lock();
            writeln!(
                out,
                "no longer approved: {}",
                printable(&path.to_string_lossy())
            )?;
        }
    }
    Ok(0)
}

fn within(path: PathBuf) -> PathBuf {
    match path.is_dir() && read_linked_root(&path).is_none() {
        true => path.join("nilo.toml"),
        false => path,
    }
}

fn open(path: &Path) -> Result<SettingsFile, Failure> {
    let refuse = |why: String| Failure::new(format!("cannot approve {}: {why}", path.display()));
    match read_found(path) {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(refuse("there is no such file".to_owned())
            .hint("name a nilo.toml, or the folder that it is in")),
        Err(refusal) => Err(refuse(refusal.to_string())),
    }
}

fn find() -> Result<SettingsFile, Failure> {
    match nearest(&std::env::current_dir()?) {
        (Some(file), _) => Ok(file),
        (None, Some((path, refusal))) => Err(Failure::new(format!(
            "cannot approve {}: {refusal}",
            path.display()
        ))),
        (None, None) => Err(Failure::new("no nilo.toml in this folder or above")
            .hint("name the file: nilo trust FILE")),
    }
}
