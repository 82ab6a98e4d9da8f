//! What a column is, by its name: `host_rss_mb` is memory in MiB about the host, `t_s` is a time in seconds.
//!
//! A name is cut into words (`memory.used [MiB]` → memory, used, mib; `gpuMemMB` → gpu, mem, mb), and the words are looked up.
//! Columns about something else that has bytes (disks, networks, free and virtual memory) are left alone.

use crate::import::Role;
use crate::options::ByteUnit;

/// What a column holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ColumnMeaning {
    /// Times; seconds in one unit where the name says it.
    Time { unit_secs: Option<f64> },
    /// Training steps.
    Step,
    /// A word for what the program does.
    Phase,
    /// What tells rows of different GPUs or processes apart, and the word for it.
    Key(&'static str),
    /// Memory.
    Memory(MemoryName),
    /// Anything else.
    Other,
}

/// A memory column, as far as its name tells.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MemoryName {
    pub(crate) role: Role,
    /// `None` where the name has no unit.
    pub(crate) unit: Option<ByteUnit>,
    pub(crate) percent: bool,
    /// The remaining words.
    pub(crate) about: String,
}

const TIME_WORDS: &str = "t time times ts timestamp timestamps elapsed seconds secs sec milliseconds \
    datetime date walltime runtime uptime clock";
/// They may stand beside a time word.
const BESIDE_TIME: &str = "unix epoch wall utc local relative since start run process iso in";
const STEPS: [&str; 9] = [
    "step",
    "steps",
    "global step",
    "train step",
    "training step",
    "trainer step",
    "iteration",
    "iter",
    "iterations",
];
/// Words that are memory by themselves.
const MEMORY_WORDS: &str = "rss pss uss vmrss rssanon memory mem ram vram gpumem dram hbm heap resident nvml \
    anon footprint reserved allocated alloc working unreclaimable";
/// Words that are memory in company of a unit, or alone.
const LEVEL_WORDS: &str = "used usage use real active live total limit capacity";
const HELD_WORDS: &str = "allocated alloc active live";
const LIMIT_WORDS: &str = "limit total capacity";
/// They add nothing to what a name is about.
const PLAIN_WORDS: &str = "set current size value vm percent pct";
/// A name with one of these is not the level of memory that a process takes.
const FOREIGN_WORDS: &str = "virtual vsz vms vmsize free available avail cached cache buffers buff \
    peak high hwm vmhwm max maximum min mean avg swap shared disk fs storage network net \
    read write written rx tx sent received bandwidth utilization util clock temp power rate freq \
    processes nproc count";

fn is_one_of(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|listed| listed == word)
}

fn time_unit_secs(word: &str) -> Option<f64> {
    Some(match word {
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "ms" | "msec" | "millis" | "milliseconds" => 1e-3,
        "us" | "µs" | "micros" | "microseconds" => 1e-6,
        "ns" | "nanos" | "nanoseconds" => 1e-9,
        "min" | "minutes" => 60.0,
        "h" | "hours" => 3600.0,
        _ => return None,
    })
}

/// What a column tells apart.
fn key_kind(name: &str) -> Option<&'static str> {
    Some(match name {
        "index" | "gpu" | "gpu index" | "gpu id" | "uuid" | "gpu uuid" => "gpu",
        "pci bus id" | "gpu bus id" => "gpu",
        "device" | "device index" => "device",
        "pid" => "process",
        "rank" => "rank",
        "local rank" => "local rank",
        "node" | "hostname" => "node",
        _ => return None,
    })
}

/// Finds out what a column holds. `beside_cpu`: another column is about the CPU, so that `gpu` is a load and no number of a GPU.
pub(crate) fn meaning(name: &str, beside_cpu: bool) -> ColumnMeaning {
    let words = words(name);
    let joined = words.join(" ");
    if let Some(time) = as_time(&words) {
        return time;
    }
    if STEPS.contains(&joined.as_str()) {
        return ColumnMeaning::Step;
    }
    if matches!(joined.as_str(), "phase" | "phases" | "stage") {
        return ColumnMeaning::Phase;
    }
    if let Some(kind) = key_kind(&joined).filter(|_| joined != "gpu" || !beside_cpu) {
        return ColumnMeaning::Key(kind);
    }
    match as_memory(name, &words) {
        Some(memory) => ColumnMeaning::Memory(memory),
        None => ColumnMeaning::Other,
    }
}

fn as_time(words: &[String]) -> Option<ColumnMeaning> {
    let is_core = |word: &String| is_one_of(TIME_WORDS, word);
    let fits = |word: &String| {
        is_core(word) || is_one_of(BESIDE_TIME, word) || time_unit_secs(word).is_some()
    };
    let is_time = words.iter().all(fits) && words.iter().any(is_core);
    is_time.then(|| ColumnMeaning::Time {
        unit_secs: words.iter().rev().find_map(|word| time_unit_secs(word)),
    })
}

/// The unit in a name and whether it is a share, for columns that the caller chose.
pub(crate) fn chosen_memory(name: &str) -> MemoryName {
    let words = words(name);
    as_memory(name, &words).unwrap_or_else(|| MemoryName {
        role: Role::Used,
        unit: unit_of(&words),
        percent: is_percent(name, &words),
        about: words.join(" "),
    })
}

fn as_memory(name: &str, words: &[String]) -> Option<MemoryName> {
    let has = |list: &str| words.iter().any(|word| is_one_of(list, word));
    let unit = unit_of(words);
    let percent = is_percent(name, words);
    let is_level = has(LEVEL_WORDS) && (unit.is_some() || words.len() == 1);
    if !(has(MEMORY_WORDS) || is_level) || has(FOREIGN_WORDS) {
        return None;
    }
    let role = match () {
        () if has(LIMIT_WORDS) => Role::Limit,
        () if has(HELD_WORDS) => Role::Held,
        () => Role::Used,
    };
    // What /proc/PID/status calls VmRSS is in kB there and in every table made from it.
    let from_status = words.iter().any(|word| word == "vm" || word == "vmrss");
    let plain = |word: &String| {
        let lists = [MEMORY_WORDS, LEVEL_WORDS, PLAIN_WORDS];
        ByteUnit::by_name(word).is_some() || lists.iter().any(|list| is_one_of(list, word))
    };
    // NVML is a way of asking, and what it tells is about another memory than the allocator's.
    let about = words.iter().filter(|word| !plain(word) || *word == "nvml");
    Some(MemoryName {
        role,
        unit: unit.or(from_status.then_some(ByteUnit::Kib)),
        percent,
        about: about.map(String::as_str).collect::<Vec<_>>().join(" "),
    })
}

fn unit_of(words: &[String]) -> Option<ByteUnit> {
    words.iter().rev().find_map(|word| ByteUnit::by_name(word))
}

fn is_percent(name: &str, words: &[String]) -> bool {
    name.contains('%') || words.iter().any(|word| word == "percent" || word == "pct")
}

/// Lower-case words of a name, cut at punctuation and at capitals.
pub(crate) fn words(name: &str) -> Vec<String> {
    // Units with a capital in the middle stay whole.
    let mut name = name.to_owned();
    for unit in ["KiB", "MiB", "GiB", "TiB", "kB"] {
        name = name.replace(unit, &format!("_{}_", unit.to_ascii_lowercase()));
    }
    let chars: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (place, &c) in chars.iter().enumerate() {
        if !c.is_alphanumeric() {
            words.push(String::new());
            continue;
        }
        let before = place.checked_sub(1).map(|before| chars[before]);
        let rises = before.is_some_and(|b| b.is_lowercase() && c.is_uppercase());
        // The last capital of several belongs to the word that follows: RSSBytes.
        let next_is_lower = chars.get(place + 1).is_some_and(|next| next.is_lowercase());
        let turns = before.is_some_and(char::is_uppercase) && c.is_uppercase() && next_is_lower;
        if rises || turns {
            words.push(String::new());
        }
        if let Some(last) = words.last_mut() {
            last.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(name: &str) -> Option<(Role, Option<ByteUnit>, String)> {
        match meaning(name, false) {
            ColumnMeaning::Memory(memory) => Some((memory.role, memory.unit, memory.about)),
            _ => None,
        }
    }

    #[test]
    fn names_are_cut_into_words() {
        for (name, expected) in [
            ("memory.used [MiB]", "memory used mib"),
            ("gpuMemMB", "gpu mem mb"),
            ("RSSBytes", "rss bytes"),
            ("_runtime", "runtime"),
            ("Real (MB)", "real mb"),
            ("VmRSS_kB", "vm rss kb"),
        ] {
            assert_eq!(words(name).join(" "), expected);
        }
    }

    #[test]
    fn memory_is_known_by_name_and_unit() {
        use ByteUnit::{Bytes, Gib, Kib, Mib};
        for (name, role, unit, about) in [
            ("rss", Role::Used, None, ""),
            ("rss_bytes", Role::Used, Some(Bytes), ""),
            ("memory_mb", Role::Used, Some(Mib), ""),
            ("used_gb", Role::Used, Some(Gib), ""),
            ("mem_kb", Role::Used, Some(Kib), ""),
            ("VmRSS", Role::Used, Some(Kib), ""),
            ("allocated", Role::Held, None, ""),
            ("reserved", Role::Used, None, ""),
            ("cuda_memory_allocated", Role::Held, None, "cuda"),
            ("nvml_process", Role::Used, None, "nvml process"),
            ("host_rss", Role::Used, None, "host"),
            ("memory.used [MiB]", Role::Used, Some(Mib), ""),
            ("memory.total [MiB]", Role::Limit, Some(Mib), ""),
            ("used_gpu_memory [MiB]", Role::Used, Some(Mib), "gpu"),
            ("cgroup_working_set_mb", Role::Used, Some(Mib), "cgroup"),
            ("cgroup_limit_mb", Role::Limit, Some(Mib), "cgroup"),
        ] {
            assert_eq!(memory(name), Some((role, unit, about.to_owned())), "{name}");
        }
    }

    #[test]
    fn other_things_that_have_bytes_are_left_alone() {
        for name in [
            "Virtual (MB)",
            "Read bytes",
            "written_bytes",
            "host_available_mb",
            "high_water_mb",
            "swap_mb",
            "disk_used_gb",
            "utilization.memory [%]",
            "memory.free [MiB]",
            "max_memory_allocated",
            "tree pss_processes",
            "cpu_usage",
            "gpu_usage",
            "loss",
            "value",
        ] {
            assert_eq!(memory(name), None, "{name}");
        }
    }

    #[test]
    fn times_are_known_by_name_and_unit() {
        for (name, expected) in [
            ("t", None),
            ("t_s", Some(1.0)),
            ("time", None),
            ("timestamp_seconds", Some(1.0)),
            ("elapsed_ms", Some(1e-3)),
            ("Elapsed time", None),
            ("_runtime", None),
            ("unix_time", None),
            ("Wall time", None),
            ("time (min)", Some(60.0)),
        ] {
            let found = meaning(name, false);
            assert_eq!(
                found,
                ColumnMeaning::Time {
                    unit_secs: expected
                },
                "{name}"
            );
        }
        for name in [
            "step_time_ms",
            "cpu_time",
            "epoch",
            "min",
            "s",
            "time_per_step",
        ] {
            assert!(
                !matches!(meaning(name, false), ColumnMeaning::Time { .. }),
                "{name}"
            );
        }
    }

    #[test]
    fn a_gpu_is_a_number_unless_the_cpu_stands_beside_it() {
        assert_eq!(meaning("gpu", false), ColumnMeaning::Key("gpu"));
        assert_eq!(meaning("gpu", true), ColumnMeaning::Other);
        assert_eq!(meaning("index", true), ColumnMeaning::Key("gpu"));
        assert_eq!(meaning("pid", true), ColumnMeaning::Key("process"));
    }

    #[test]
    fn shares_are_told_from_amounts() {
        for name in ["memory_percent", "mem [%]", "ram_pct"] {
            assert!(chosen_memory(name).percent, "{name}");
        }
    }
}
