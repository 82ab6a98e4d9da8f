//! Whom a live verb looks at: processes with their descendants, or the machine.

use nilo_answer::resource_filter::ResourceFilter;
use nilo_recorder::stored_command_line;
use nilo_source::{ProcessListing, Roots, list_processes, process_id};

use super::gpus::check_devices;
use crate::args::LiveArgs;
use crate::failure::Failure;
use crate::recording::explain;
use crate::target_match::{BY_PID, match_name, own_python_programs};
use crate::text::one_line::one_line;

const NAME_CHARS: usize = 60;

/// Whom to look at.
#[derive(Debug)]
pub(crate) struct WatchTarget {
    /// Nobody: the machine.
    pub(crate) pids: Vec<u32>,
    /// Their command lines.
    pub(crate) commands: Vec<String>,
    /// The name of the first.
    pub(crate) name: String,
    /// In words: `train.py (PID 4711)`, `3 processes`, `this machine`.
    pub(crate) label: String,
    pub(crate) devices: Option<Vec<u32>>,
}

impl WatchTarget {
    /// The processes named, or the machine; refuses what is not there.
    pub(crate) fn settle(args: &LiveArgs) -> Result<WatchTarget, Failure> {
        let listing = list_processes(&Roots::default());
        let pids = match &args.name_pattern {
            Some(pattern) => match_name(&listing, pattern, false, BY_PID)?,
            None => args.pid.clone(),
        };
        WatchTarget::of(pids, &listing, args)
    }

    /// As [`WatchTarget::settle`], but without a word it is every Python program of the user, or the machine where none runs.
    pub(crate) fn settle_programs(args: &LiveArgs) -> Result<WatchTarget, Failure> {
        if args.names_processes() || !args.devices.is_empty() {
            return WatchTarget::settle(args);
        }
        let listing = list_processes(&Roots::default());
        let mut pids = own_python_programs(&listing);
        // Nobody asked for one that has ended since.
        pids.retain(|pid| process_id(&Roots::default(), *pid).is_ok());
        WatchTarget::of(pids, &listing, args)
    }

    fn of(
        mut pids: Vec<u32>,
        listing: &[ProcessListing],
        args: &LiveArgs,
    ) -> Result<WatchTarget, Failure> {
        pids.sort_unstable();
        pids.dedup();
        for &pid in &pids {
            if pid == std::process::id() {
                return Err(Failure::new(format!("PID {pid} is nilo itself"))
                    .hint("`nilo ps` lists processes that can be watched"));
            }
            process_id(&Roots::default(), pid).map_err(|error| explain(error.into()))?;
        }
        check_devices(&args.devices)?;
        let find = |pid: &u32| listing.iter().find(|process| process.id.pid == *pid);
        let name = pids.first().and_then(find).map_or("", |it| &it.info.name);
        let name = one_line(name, NAME_CHARS);
        let label = match pids[..] {
            [] => "this machine".to_owned(),
            [pid] => format!("{name} (PID {pid})"),
            _ => format!("{} processes", pids.len()),
        };
        let commands = pids.iter().filter_map(find);
        Ok(WatchTarget {
            commands: commands.map(|it| stored_command_line(&it.info)).collect(),
            devices: (!args.devices.is_empty()).then(|| args.devices.clone()),
            name,
            label,
            pids,
        })
    }

    pub(crate) fn is_machine(&self) -> bool {
        self.pids.is_empty()
    }

    pub(crate) fn scope(&self) -> ResourceFilter {
        ResourceFilter {
            gpus_alone: self.is_machine() && self.devices.is_some(),
            devices: self.devices.clone(),
        }
    }
}
