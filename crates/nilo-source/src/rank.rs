//! Which rank of a distributed job a process is, as launchers say it in the environment.

/// The variables of torchrun, Open MPI, MPICH and its kin, PMIx, and Slurm, in this order: a launcher inside a Slurm job knows better.
const VARIABLES: [&str; 5] = [
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "SLURM_PROCID",
];

/// The first of them that is a number.
pub(crate) fn rank_in(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    let mut values = VARIABLES.iter().filter_map(|name| variable(name));
    values.find_map(|value| value.trim().parse().ok())
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
    fn what_is_no_number_is_no_rank() {
        assert_eq!(rank(&[("RANK", "captain")]), None);
        assert_eq!(rank(&[("RANK", ""), ("PMI_RANK", "1")]), Some(1));
        assert_eq!(rank(&[("RANK", "-1")]), None);
    }
}
