//! What of a GPU's memory programs can have, and what of it is not their tensors.

/// A kind of GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuKind {
    /// As people call it.
    pub name: String,
    /// What all programs can have together.
    pub memory_bytes: u64,
    /// Major and minor compute capability.
    pub capability: (u32, u32),
    /// Bytes that its memory moves in a second.
    pub bandwidth_bytes_per_sec: Option<f64>,
    /// Multiplications and additions of 16-bit matrices in a second, as its maker says.
    pub dense_flops: Option<f64>,
    aliases: String,
}

const TABLE: &str = include_str!("../catalogue/gpus.tsv");
const MIB: u64 = 1 << 20;
/// What cuBLAS allocates for each thread that multiplies matrices, through PyTorch's allocator: 32 MiB from compute capability 9.0 on.
const WORKSPACE_BYTES: u64 = 8_519_680;
const WORKSPACE_90_BYTES: u64 = 32 * MIB;
/// The driver's figure for a process less what PyTorch reserved, at the end of trainings and inferences on an H200 (driver 580, PyTorch 2.11).
/// Other devices are taken to be alike: 300 to 700 MiB are reported.
const CONTEXT_BYTES: u64 = 742 * MIB;
/// Of the driver's total, CUDA leaves at least so much to programs on the GPUs where both are known.
const SHARE_OF_DRIVERS_TOTAL: f64 = 0.975;

/// All of the catalogue.
pub fn gpus() -> Vec<GpuKind> {
    TABLE.lines().skip(1).filter_map(gpu_of_row).collect()
}

fn gpu_of_row(row: &str) -> Option<GpuKind> {
    let cells: Vec<&str> = row.split('\t').collect();
    let [
        name,
        aliases,
        _,
        driver,
        major,
        minor,
        bandwidth,
        flops,
        cuda,
        ..,
    ] = cells[..]
    else {
        return None;
    };
    let driver: u64 = driver.parse().ok()?;
    let memory_bytes = match cuda.parse() {
        Ok(bytes) => bytes,
        Err(_) => (driver as f64 * SHARE_OF_DRIVERS_TOTAL) as u64,
    };
    let giga = |text: &str| text.parse::<f64>().ok().map(|number| number * 1e9);
    Some(GpuKind {
        name: name.to_owned(),
        memory_bytes,
        capability: (major.parse().ok()?, minor.parse().ok()?),
        bandwidth_bytes_per_sec: giga(bandwidth),
        dense_flops: giga(flops).map(|number| number * 1e3),
        aliases: aliases.to_owned(),
    })
}

/// Why a name means no GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuNameError {
    /// Nothing is called so.
    #[error("no GPU {name:?} is known; known are {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// All names.
        known: Vec<String>,
    },
    /// Several are.
    #[error("{name:?} may be {}", candidates.join(" or "))]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// Their names.
        candidates: Vec<String>,
    },
}

/// A GPU by its name or the beginning of it, without regard to case, spaces and maker.
pub fn find_gpu(name: &str) -> Result<GpuKind, GpuNameError> {
    let wanted = plain(name);
    let all = gpus();
    let names = |gpu: &GpuKind| -> Vec<String> {
        let aliases = gpu.aliases.split(',');
        aliases.chain([gpu.name.as_str()]).map(plain).collect()
    };
    let exact: Vec<&GpuKind> = all
        .iter()
        .filter(|gpu| names(gpu).contains(&wanted))
        .collect();
    let found = match exact.is_empty() && !wanted.is_empty() {
        true => {
            let begins = |gpu: &&GpuKind| names(gpu).iter().any(|known| known.starts_with(&wanted));
            all.iter().filter(begins).collect()
        }
        false => exact,
    };
    let named = |gpus: &[&GpuKind]| gpus.iter().map(|gpu| gpu.name.clone()).collect();
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(GpuNameError::Unknown {
            name: name.to_owned(),
            known: all.iter().map(|gpu| gpu.name.clone()).collect(),
        }),
        several => Err(GpuNameError::Ambiguous {
            name: name.to_owned(),
            candidates: named(several),
        }),
    }
}

fn plain(name: &str) -> String {
    let mut text: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect::<String>()
        .to_ascii_lowercase();
    for maker in ["nvidia", "geforce", "tesla"] {
        text = text.replace(maker, "");
    }
    text
}

impl GpuKind {
    /// A GPU of which only the memory is known.
    pub fn of_memory(name: &str, memory_bytes: u64) -> Self {
        Self {
            name: name.to_owned(),
            memory_bytes,
            capability: (9, 0),
            bandwidth_bytes_per_sec: None,
            dense_flops: None,
            aliases: String::new(),
        }
    }

    /// What cuBLAS allocates for each thread that multiplies matrices.
    pub fn workspace_bytes(&self) -> u64 {
        match self.capability >= (9, 0) {
            true => WORKSPACE_90_BYTES,
            false => WORKSPACE_BYTES,
        }
    }

    /// What a process takes besides what PyTorch reserves: CUDA's context and loaded kernels.
    pub fn context_bytes(&self) -> u64 {
        CONTEXT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_gpu_that_its_names_find() {
        assert_eq!(gpus().len(), TABLE.lines().count() - 1);
        for gpu in gpus() {
            assert!(gpu.memory_bytes > 4 << 30, "{}", gpu.name);
            assert_eq!(
                find_gpu(&gpu.name).map(|found| found.name),
                Ok(gpu.name.clone())
            );
        }
    }

    #[test]
    fn names_are_understood_without_maker_case_and_spaces() {
        let name = |asked: &str| find_gpu(asked).map(|gpu| gpu.name);
        assert_eq!(name("rtx4090"), Ok("RTX 4090".to_owned()));
        assert_eq!(name("NVIDIA H200"), Ok("H200".to_owned()));
        assert_eq!(name("h100"), Ok("H100 SXM".to_owned()));
        assert!(
            matches!(name("a100"), Err(GpuNameError::Ambiguous { candidates, .. }) if candidates.len() == 2)
        );
        assert!(matches!(name("abacus"), Err(GpuNameError::Unknown { .. })));
        assert!(matches!(name(""), Err(GpuNameError::Unknown { .. })));
    }
}
