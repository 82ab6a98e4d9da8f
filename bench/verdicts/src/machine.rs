//! The machine in words, so that nobody takes its figures for those of another one.

use std::fs;

/// A sentence about processor and memory, as far as `/proc` tells.
pub fn describe() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    sentence(&processors, &memory)
}

fn sentence(processors: &str, memory: &str) -> String {
    let cores = processors
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let model = value(processors, "model name").unwrap_or("an unknown processor");
    let flags = value(processors, "flags").unwrap_or("");
    let place = if flags.split(' ').any(|flag| flag == "hypervisor") {
        ", in a virtual machine"
    } else {
        ""
    };
    let kibibytes =
        value(memory, "MemTotal").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    let memory = kibibytes.map_or_else(String::new, |kibibytes| {
        format!(", {:.1} GiB of memory", kibibytes / (1 << 20) as f64)
    });
    let plural = if cores == 1 { "core" } else { "cores" };
    format!("{cores} {plural} ({model}){place}{memory}.")
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described_by_cores_processor_and_memory() {
        let processors =
            "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu hypervisor\nprocessor\t: 1\n";
        let memory = "MemTotal:       24681472 kB\n";
        assert_eq!(
            sentence(processors, memory),
            "2 cores (Some CPU), in a virtual machine, 23.5 GiB of memory."
        );
        assert_eq!(sentence("", ""), "0 cores (an unknown processor).");
    }
}
