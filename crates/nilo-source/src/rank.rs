//! Which rank of a distributed job a process is, as launchers say it in the environment.

use std::sync::OnceLock;

/// A process's place in a distributed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank {
    /// Its number, counted from zero.
    pub rank: u32,
    /// How many there are.
    pub world_size: u32,
}

static TOLD: OnceLock<Rank> = OnceLock::new();

/// Tells this process its place, where a launcher does not say it in the environment. The first word counts.
pub fn tell_own_rank(rank: Rank) {
    TOLD.get_or_init(|| rank);
}

/// This process's place, where a launcher gave it one among several, or the process was told it.
pub fn own_rank() -> Option<Rank> {
    rank_among_several(|name| std::env::var(name).ok()).or_else(|| TOLD.get().copied())
}

fn rank_among_several(variable: impl Fn(&str) -> Option<String>) -> Option<Rank> {
    let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
    let place = |(rank, size): (&&str, &str)| {
        Some(Rank {
            rank: number(rank)?,
            world_size: number(size)?,
        })
    };
    let mut pairs = VARIABLES.iter().zip(SIZES);
    let torchrun = pairs.next().and_then(place);
    let by_lightning = || {
        Some(Rank {
            rank: rank_by_lightning(&variable)?,
            world_size: number("WORLD_SIZE")?,
        })
    };
    torchrun
        .or_else(by_lightning)
        .or_else(|| pairs.find_map(place))
        .filter(|rank| rank.world_size > 1)
}

/// Lightning's own launcher tells the ranks that it starts only their place on the machine, which is the rank on the first machine.
fn rank_by_lightning(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
    let is_told = variable("RANK").is_none() && variable("WORLD_SIZE").is_some();
    let is_first_machine = number("NODE_RANK") == Some(0);
    (is_told && is_first_machine).then(|| number("LOCAL_RANK"))?
}

/// The variables of torchrun, Open MPI, MPICH and its kin, PMIx, and Slurm, in this order: a launcher inside a Slurm job knows better.
const VARIABLES: [&str; 5] = [
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "SLURM_PROCID",
];

/// The variables that say how many there are, in the same order.
const SIZES: [&str; 5] = [
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "PMIX_SIZE",
    "SLURM_NTASKS",
];

/// The first of them that is a number.
pub(crate) fn rank_in(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    rank_by_lightning(&variable).or_else(|| {
        let mut values = VARIABLES.iter().filter_map(|name| variable(name));
        values.find_map(|value| value.trim().parse().ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(entries: &[(&str, &str)]) -> Option<u32> {
        rank_in(|name| {
            let entry = entries.iter().find(|(known, _)| *known == name);
            entry.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_nearest_launcher_is_believed() {
        assert_eq!(rank(&[("SLURM_PROCID", "0"), ("RANK", "3")]), Some(3));
        assert_eq!(rank(&[("SLURM_PROCID", "12")]), Some(12));
        assert_eq!(rank(&[]), None);
    }

    #[test]
    fn one_process_alone_has_no_rank() {
        let among = |entries: &[(&str, &str)]| {
            rank_among_several(|name| {
                let entry = entries.iter().find(|(known, _)| *known == name);
                entry.map(|(_, value)| (*value).to_owned())
            })
        };
        let of_four = Some(Rank {
            rank: 3,
            world_size: 4,
        });
        assert_eq!(among(&[("RANK", "3"), ("WORLD_SIZE", "4")]), of_four);
        assert_eq!(among(&[("RANK", "0"), ("WORLD_SIZE", "1")]), None);
        assert_eq!(among(&[("RANK", "0")]), None);
        let slurm = [("SLURM_PROCID", "3"), ("SLURM_NTASKS", "4")];
        assert_eq!(among(&slurm), of_four);
    }

    #[test]
    fn lightning_tells_the_place_on_the_machine() {
        let of_four = [("LOCAL_RANK", "3"), ("NODE_RANK", "0"), ("WORLD_SIZE", "4")];
        let in_slurm = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")];
        let on_second = [("LOCAL_RANK", "1"), ("NODE_RANK", "1"), ("WORLD_SIZE", "4")];
        let place = |entries: &[(&str, &str)]| {
            rank_among_several(|name| {
                let entry = entries.iter().find(|(known, _)| *known == name);
                entry.map(|(_, value)| (*value).to_owned())
            })
        };
        let last = Some(Rank {
            rank: 3,
            world_size: 4,
        });
        assert_eq!(place(&of_four), last);
        assert_eq!(place(&[&of_four[..], &in_slurm].concat()), last);
        assert_eq!(place(&on_second), None);
        assert_eq!(place(&[&on_second[..], &[("RANK", "3")]].concat()), last);
        assert_eq!(rank(&of_four), Some(3));
        assert_eq!(rank(&[("LOCAL_RANK", "1")]), None);
    }

    #[test]
    fn what_is_no_number_is_no_rank() {
        assert_eq!(rank(&[("RANK", "captain")]), None);
        assert_eq!(rank(&[("RANK", ""), ("PMI_RANK", "1")]), Some(1));
        assert_eq!(rank(&[("RANK", "-1")]), None);
    }
}
