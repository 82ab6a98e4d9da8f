//! Which runs are runs of the same job.
//!
//! The rule: same program, same script, same options with the same values, except that
//!
//! - of paths the last part counts, and interpreters lose their version (`/usr/bin/python3.11` is `python`);
//! - options that say where things go, what they are called or how the training is steered do not count ([`PASSING_OPTIONS`]):
//!   seeds, learning rates, output folders, epochs take no memory;
//! - of the settings that the program logged only those count that shape memory ([`SHAPING_SETTINGS`]).
//!
//! So two seeds of one job go together, and two batch sizes do not.

use std::collections::BTreeMap;

/// Options whose values do not change how much memory a job takes; a name counts when one of its words is among these.
const PASSING_OPTIONS: &str = "seed lr rate learning decay momentum warmup epoch epochs steps iterations \
    out output outdir dir folder path file name run tag tags id log logging logdir wandb project group note notes \
    port host addr address resume checkpoint ckpt save every rank o";

/// The same for options that have no value.
const PASSING_FLAGS: &str = "verbose debug quiet progress v q";

/// Words in the names of settings that shape memory.
const SHAPING_SETTINGS: &str = "batch seq sequence length context model layers layer hidden width dim heads \
    embedding vocab precision dtype bf16 fp16 workers accumulation checkpointing micro world image resolution";

/// The words of a command and its settings by which runs belong together.
pub fn fingerprint(command: &[String], config: &BTreeMap<String, String>) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut skip_value = false;
    for (place, argument) in command.iter().enumerate() {
        let is_option = argument.starts_with('-') && argument.len() > 1 && !is_number(argument);
        if is_option {
            skip_value = false;
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (argument.as_str(), None),
            };
            if has_word(PASSING_FLAGS, name) {
                continue;
            }
            if has_word(PASSING_OPTIONS, name) {
                // The value stands behind the `=` or is the next argument.
                skip_value = value.is_none();
            } else {
                words.push(match value {
                    Some(value) => format!("{name}={}", last_part(value)),
                    None => name.to_owned(),
                });
            }
            continue;
        }
        if std::mem::take(&mut skip_value) {
            continue;
        }
        // Hydra and its kind: lr=0.1 without dashes.
        if let Some((name, value)) = argument.split_once('=') {
            if !has_word(PASSING_OPTIONS, name) {
                words.push(format!("{name}={}", last_part(value)));
            }
            continue;
        }
        let word = last_part(argument);
        words.push(match place {
            0 => without_version(word).to_owned(),
            _ => word.to_owned(),
        });
    }
    for (name, value) in config {
        if has_word(SHAPING_SETTINGS, name) && !has_word("seed rate lr", name) {
            words.push(format!("{name}:{}", last_part(value)));
        }
    }
    words.join(" ").trim_end().to_owned()
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok()
}

/// Whether one of the words of a name is in a list.
fn has_word(list: &str, name: &str) -> bool {
    let words = name.split(|c: char| !c.is_alphanumeric());
    let mut lower = words.map(str::to_lowercase).filter(|word| !word.is_empty());
    lower.any(|word| list.split_ascii_whitespace().any(|listed| listed == word))
}

/// The last part of a path; anything else stays whole.
fn last_part(text: &str) -> &str {
    let trimmed = text.trim_end_matches('/');
    match trimmed.rsplit_once('/') {
        Some((_, last)) if !last.is_empty() => last,
        _ => text,
    }
}

/// `python3.11` is `python`.
fn without_version(program: &str) -> &str {
    let bare = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if bare.is_empty() { program } else { bare }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &str) -> String {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        fingerprint(&words, &BTreeMap::new())
    }

    #[test]
    fn seeds_and_folders_do_not_tell_jobs_apart() {
        let first = of(
            "/usr/bin/python3.11 /home/a/train.py --seed 1 --batch-size 32 --output-dir /scratch/1 --lr=3e-4",
        );
        let second =
            of("python train.py --seed 2 --batch-size 32 --output-dir /scratch/2 --lr=1e-4");
        assert_eq!(first, second);
        assert_eq!(first, "python train.py --batch-size 32");
        assert_eq!(
            fingerprint(&["sh".to_owned(), String::new()], &BTreeMap::new()),
            "sh"
        );
        assert_eq!(
            of("python t.py lr=0.1 model=big"),
            of("python t.py lr=0.2 model=big")
        );
    }

    #[test]
    fn scripts_and_batch_sizes_do() {
        assert_ne!(of("python -v train.py"), of("python -v eval.py"));
        assert_ne!(of("python train.py"), of("python eval.py"));
        assert_ne!(
            of("python t.py --batch-size 32"),
            of("python t.py --batch-size 64")
        );
        assert_ne!(
            of("python t.py --batch-size=32"),
            of("python t.py --batch-size=64")
        );
        assert_ne!(of("python t.py -1"), of("python t.py -2"));
    }

    #[test]
    fn settings_that_shape_memory_count() {
        let with = |pairs: &[(&str, &str)]| {
            let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
            let config = pairs.iter().map(owned).collect();
            fingerprint(&["python".to_owned()], &config)
        };
        assert_ne!(with(&[("batch_size", "32")]), with(&[("batch_size", "64")]));
        assert_eq!(
            with(&[("lr", "1"), ("seed", "1")]),
            with(&[("lr", "2"), ("seed", "2")])
        );
    }

    #[test]
    fn strange_commands_are_survived() {
        for command in [
            "", "-", "--", "=", "--=x", "/", "///", "-v", "--seed", "3.11", "a=/",
        ] {
            let _ = of(command);
        }
        assert_eq!(fingerprint(&[], &BTreeMap::new()), "");
    }
}
