//! The other ranks of a distributed program on this machine, where a launcher started them beside this process.

use crate::descriptors::read_kernel_file;
use crate::own_children::children_of;
use crate::roots::Roots;

/// Ranks of one launch have these in common; one of them says how many there are.
const IN_COMMON: [&str; 4] = [
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
];

/// PIDs of the processes that this one's parent started as other ranks of the same program; nobody where the kernel does not list them.
pub fn local_ranks(roots: &Roots) -> Vec<u32> {
    let own = std::process::id();
    let launch =
        IN_COMMON.map(|name| std::env::var_os(name).map(|value| value.into_encoded_bytes()));
    let mut beside = children_of(roots, std::os::unix::process::parent_id());
    beside.retain(|pid| *pid != own && is_rank_of(roots, *pid, &launch));
    beside
}

fn is_rank_of(roots: &Roots, pid: u32, launch: &[Option<Vec<u8>>; 4]) -> bool {
    let path = roots.proc.join(pid.to_string()).join("environ");
    let environment = read_kernel_file(path).unwrap_or_default();
    let value = |name: &str| {
        let mut entries = environment.split(|byte| *byte == 0);
        entries.find_map(|entry| {
            let rest = entry.strip_prefix(name.as_bytes())?;
            rest.strip_prefix(b"=".as_slice())
        })
    };
    let same = |(name, own): (&&str, &Option<Vec<u8>>)| value(name) == own.as_deref();
    value("RANK").is_some() && IN_COMMON.iter().zip(launch).all(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn rank(variables: &[(&str, &str)]) -> Child {
        Command::new("cat")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap()
    }

    #[test]
    fn a_rank_is_a_process_of_the_same_launch() {
        let port = |port: &str| {
            let told = [Some("2"), Some("host"), Some(port), None];
            told.map(|value| value.map(|value| value.as_bytes().to_vec()))
        };
        let of_launch = [
            ("WORLD_SIZE", "2"),
            ("MASTER_ADDR", "host"),
            ("MASTER_PORT", "7"),
        ];
        let mut ranked = rank(&[&of_launch[..], &[("RANK", "1")]].concat());
        let mut helper = rank(&of_launch);
        let roots = Roots::default();
        assert!(is_rank_of(&roots, ranked.id(), &port("7")));
        assert!(!is_rank_of(&roots, ranked.id(), &port("8")));
        assert!(!is_rank_of(&roots, helper.id(), &port("7")));
        for child in [&mut ranked, &mut helper] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }
}
