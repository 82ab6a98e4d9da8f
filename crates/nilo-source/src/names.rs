//! Names that people recognise: `python train.py` instead of `python3.11`.
//!
//! Made of the kernel's short name (`comm`, 15 bytes, which programs may change) and the argument list.
//! Directories and version numbers go, what the program was asked to run stays, and a short name that the program chose itself is added in brackets.

use nilo_sample::printable::is_printable;

/// The longest name, in characters.
const NAME_CHARS: usize = 60;
/// The longest command line that is kept, in characters.
const COMMAND_CHARS: usize = 1000;

/// The name under which a process is shown.
///
/// `comm` is the kernel's short name and `argv` the arguments, empty for kernel threads.
pub fn display_name(comm: &str, argv: &[&str]) -> String {
    let Some(first) = argv.first().filter(|first| !first.is_empty()) else {
        return shorten(comm, NAME_CHARS);
    };
    if is_title(first, comm) {
        return shorten(first, NAME_CHARS);
    }
    // A login shell's first argument begins with a dash.
    let program = base_name(first.trim_start_matches('-'));
    let rest = &argv[1..];
    let name = match without_version(program) {
        "python" | "pypy" => python_name(without_version(program), rest),
        "java" => java_name(rest),
        "sh" | "bash" | "dash" | "zsh" | "ksh" => script_name(program, rest, &["-o", "-O"], "-c"),
        "node" | "nodejs" => script_name(program, rest, &["-r", "--require", "--loader"], "-e"),
        "Rscript" | "julia" | "perl" | "ruby" | "php" => script_name(program, rest, &[], "-e"),
        _ => program.to_owned(),
    };
    if !is_chosen(comm, first, program, rest) {
        return shorten(&name, NAME_CHARS);
    }
    let tag = format!(" [{}]", shorten(comm, 15));
    shorten(&name, NAME_CHARS - tag.chars().count()) + &tag
}

/// The command line as one text, shortened.
pub fn command_text(argv: &[String]) -> String {
    shorten(&argv.join(" "), COMMAND_CHARS)
}

/// `train.py`, `-m package`, `-c …`, or what `multiprocessing` started it for.
fn python_name(program: &str, arguments: &[&str]) -> String {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            "-m" => return join(program, "-m", arguments.next().copied().unwrap_or("")),
            "-c" => {
                let code = arguments.next().copied().unwrap_or("");
                return match multiprocessing_role(code) {
                    Some(role) => format!("{program} (multiprocessing {role})"),
                    None => format!("{program} -c …"),
                };
            }
            // Options with a value of their own.
            "-W" | "-X" | "--check-hash-based-pycs" => {
                arguments.next();
            }
            "-" => return format!("{program} -"),
            option if option.starts_with("-m") && option.len() > 2 => {
                return join(program, "-m", &option[2..]);
            }
            option if option.starts_with('-') => {}
            script => return format!("{program} {}", base_name(script)),
        }
    }
    program.to_owned()
}

/// Which helper of Python's `multiprocessing` runs this code.
fn multiprocessing_role(code: &str) -> Option<&'static str> {
    [
        ("multiprocessing.spawn", "spawn"),
        ("multiprocessing.forkserver", "forkserver"),
        ("multiprocessing.resource_tracker", "resource tracker"),
        ("multiprocessing.semaphore_tracker", "resource tracker"),
    ]
    .into_iter()
    .find(|(module, _)| code.contains(module))
    .map(|(_, role)| role)
}

/// `java -jar app.jar` or `java Main`.
fn java_name(arguments: &[&str]) -> String {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            "-jar" => {
                return join(
                    "java",
                    "-jar",
                    base_name(arguments.next().copied().unwrap_or("")),
                );
            }
            "-cp" | "-classpath" | "--class-path" | "-p" | "--module-path" | "--add-opens"
            | "--add-exports" => {
                arguments.next();
            }
            "-m" | "--module" => {
                return join("java", "-m", arguments.next().copied().unwrap_or(""));
            }
            option if option.starts_with('-') => {}
            class => return format!("java {}", class.rsplit('.').next().unwrap_or(class)),
        }
    }
    "java".to_owned()
}

/// The first argument that is no option: the script.
fn script_name(program: &str, arguments: &[&str], with_value: &[&str], code: &str) -> String {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            option if option == code => return format!("{program} {code} …"),
            option if with_value.contains(&option) => {
                arguments.next();
            }
            // Shells take several letters at once: `bash -lc '…'`.
            option if is_letters_with(option, code) => return format!("{program} {code} …"),
            option if option.starts_with(['-', '+']) => {}
            script => return format!("{program} {}", base_name(script)),
        }
    }
    program.to_owned()
}

fn is_letters_with(option: &str, code: &str) -> bool {
    let Some(letters) = option.strip_prefix('-') else {
        return false;
    };
    code == "-c" && !letters.starts_with('-') && letters.ends_with('c')
}

fn join(program: &str, option: &str, value: &str) -> String {
    format!("{program} {option} {value}").trim_end().to_owned()
}

/// Whether the first argument is a sentence that the program wrote over its arguments: `ray::train()`, `postgres: writer`, `sshd: root [priv]`.
fn is_title(first: &str, comm: &str) -> bool {
    let sentence = first.contains(' ') && !first.starts_with('/') && !first.starts_with("./");
    let named_so = !comm.is_empty() && first.len() > comm.len() && first.starts_with(comm);
    first.contains("::") || (sentence && (named_so || first.contains(": ")))
}

/// Whether the program gave itself its short name; otherwise it is the start of the program's or the script's name.
fn is_chosen(comm: &str, first: &str, program: &str, rest: &[&str]) -> bool {
    if comm.is_empty() {
        return false;
    }
    let begins = |path: &str| {
        let base = base_name(path);
        base.starts_with(comm) || (!base.is_empty() && comm.starts_with(base))
    };
    // A link may lead to a program under another version: `python` is `python3.11`.
    let same_program = without_version(comm) == without_version(program);
    // An interpreter started by a script's first line has the script's name.
    let is_script = rest.iter().any(|argument| begins(argument));
    !(begins(first) || same_program || is_script)
}

fn base_name(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.rsplit('/').next().unwrap_or(path)
}

/// `python3.11` is `python`.
fn without_version(program: &str) -> &str {
    let cut = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    if cut.is_empty() { program } else { cut }
}

/// At most so many characters, with none that a terminal would obey.
fn shorten(text: &str, chars: usize) -> String {
    let clean = |c: char| if is_printable(c) { c } else { ' ' };
    let mut short: String = text.chars().take(chars).map(clean).collect();
    if text.chars().nth(chars).is_some() {
        short.pop();
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_what_people_call_them() {
        let spawn = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)";
        let tracker = "from multiprocessing.resource_tracker import main;main(4)";
        for (comm, argv, name) in [
            (
                "python",
                &["python", "train.py", "--lr", "1"][..],
                "python train.py",
            ),
            (
                "python3.11",
                &["/usr/bin/python3.11", "-u", "/home/a/train.py"],
                "python train.py",
            ),
            (
                "python3",
                &["python3", "-W", "ignore", "-X", "dev", "x.py"],
                "python x.py",
            ),
            (
                "python3",
                &["python3.11", "-m", "torch.distributed.run", "t.py"],
                "python -m torch.distributed.run",
            ),
            ("python3", &["python3", "-mpytest"], "python -m pytest"),
            ("python3", &["python3", "-c", "print(1)"], "python -c …"),
            (
                "python3",
                &["python3", "-c", spawn, "--multiprocessing-fork"],
                "python (multiprocessing spawn)",
            ),
            (
                "python3",
                &["python3", "-c", tracker],
                "python (multiprocessing resource tracker)",
            ),
            ("python3", &["python3"], "python"),
            ("python3", &["python3", "-"], "python -"),
            (
                "pt_data_worker",
                &["python", "train.py"],
                "python train.py [pt_data_worker]",
            ),
            ("ray::train", &["ray::train() step"], "ray::train() step"),
            ("ray::IDLE", &["ray::IDLE"], "ray::IDLE"),
            (
                "postgres",
                &["postgres: background writer"],
                "postgres: background writer",
            ),
            ("sshd", &["sshd: root [priv]"], "sshd: root [priv]"),
            // A console script: the kernel's name is the script's, the program an interpreter.
            (
                "torchrun",
                &["/opt/v/bin/python3", "/opt/v/bin/torchrun", "t.py"],
                "python torchrun",
            ),
            ("train", &["/home/u/train"], "train"),
            ("bash", &["-bash"], "bash"),
            ("bash", &["bash", "job.sh", "a"], "bash job.sh"),
            ("sh", &["/bin/sh", "-c", "make all"], "sh -c …"),
            ("bash", &["bash", "-lc", "x"], "bash -c …"),
            ("bash", &["bash", "-o", "pipefail", "j.sh"], "bash j.sh"),
            (
                "java",
                &["java", "-Xmx4g", "-cp", "a:b", "org.apache.spark.Worker"],
                "java Worker",
            ),
            (
                "java",
                &["/usr/bin/java", "-jar", "/opt/app.jar"],
                "java -jar app.jar",
            ),
            (
                "node",
                &["node", "--inspect", "server.js"],
                "node server.js",
            ),
            (
                "Rscript",
                &["Rscript", "--vanilla", "fit.R"],
                "Rscript fit.R",
            ),
            ("kworker/0:1", &[], "kworker/0:1"),
            ("a\u{1b}[2J", &[""], "a [2J"),
            ("sleep", &["sleep", "10"], "sleep"),
            ("gpt worker", &["./my prog/run"], "run [gpt worker]"),
        ] {
            assert_eq!(display_name(comm, argv), name, "{comm:?} {argv:?}");
        }
    }

    proptest! {
        #[test]
        fn names_are_short_and_harmless(comm in "\\PC{0,20}|.{0,20}", argv: Vec<String>) {
            let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
            let name = display_name(&comm, &argv);
            prop_assert!(name.chars().count() <= NAME_CHARS);
            prop_assert!(!name.chars().any(char::is_control));
        }
    }
}
