//! Programs whose short options are passwords: `curl -u me:X`, `mysql -pX`. In others the same letters mean something else, so only these are known.

/// What follows an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OptionValue {
    Password,
    /// `NAME:PASSWORD`, with this between the two.
    UserAndPassword(char),
}

/// Options by which programs take a password.
#[derive(Debug)]
pub(super) struct PasswordOptions {
    programs: &'static [&'static str],
    /// The word that has to come before: `docker login -p X`, but `docker run -p 80:80`.
    after: Option<&'static str>,
    /// None: a key stands alone, as in `wandb login X`.
    options: &'static [&'static str],
    /// Options without a value that may stand before a short one in the same word: `curl -sSume:X`.
    flags: &'static str,
    value: OptionValue,
}

/// Of each program's own manual.
const KNOWN: &[PasswordOptions] = &[
    PasswordOptions {
        programs: &[
            "mysql",
            "mysqldump",
            "mysqladmin",
            "mysqlimport",
            "mysqlcheck",
            "mysqlshow",
            "mysqlpump",
            "mysqlbinlog",
            "mysqlsh",
            "mariadb",
            "mariadb-dump",
            "mariadb-admin",
            "mariadb-import",
        ],
        after: None,
        options: &["-p"],
        flags: "ABCEfGHiLNnqrstTvVwX",
        value: OptionValue::Password,
    },
    PasswordOptions {
        programs: &[
            "mongo",
            "mongosh",
            "mongodump",
            "mongorestore",
            "mongoexport",
            "mongoimport",
            "sshpass",
            "cqlsh",
            "twine",
            "7z",
            "7za",
            "7zr",
            "7zz",
        ],
        after: None,
        options: &["-p"],
        flags: "",
        value: OptionValue::Password,
    },
    PasswordOptions {
        programs: &["rar", "unrar"],
        after: None,
        options: &["-hp", "-p"],
        flags: "",
        value: OptionValue::Password,
    },
    PasswordOptions {
        programs: &["zip", "unzip", "sqlcmd", "bcp", "ipmitool"],
        after: None,
        options: &["-P"],
        flags: "",
        value: OptionValue::Password,
    },
    PasswordOptions {
        programs: &["redis-cli", "valkey-cli"],
        after: None,
        options: &["-a"],
        flags: "",
        value: OptionValue::Password,
    },
    PasswordOptions {
        programs: &[
            "ldapsearch",
            "ldapadd",
            "ldapmodify",
            "ldapdelete",
            "ldapwhoami",
        ],
        after: None,
        options: &["-w"],
        flags: "xZvnLAcCM",
        value: OptionValue::Password,
    },
    PasswordOptions {
        programs: &[
            "docker", "podman", "nerdctl", "buildah", "skopeo", "helm", "oc", "az",
        ],
        after: Some("login"),
        options: &["-p"],
        flags: "",
        value: OptionValue::Password,
    },
    PasswordOptions {
        programs: &["wandb"],
        after: Some("login"),
        options: &[],
        flags: "",
        value: OptionValue::Password,
    },
    PasswordOptions {
        programs: &["curl", "http", "https", "httpie"],
        after: None,
        options: &["--proxy-user", "--user", "-u", "-U"],
        flags: "#012346aBfgGiIjJklLMnNOpqRsSvVZ",
        value: OptionValue::UserAndPassword(':'),
    },
    PasswordOptions {
        programs: &["smbclient", "rpcclient", "smbget"],
        after: None,
        options: &["--user", "-U"],
        flags: "N",
        value: OptionValue::UserAndPassword('%'),
    },
    PasswordOptions {
        programs: &["lftp"],
        after: None,
        options: &["-u"],
        flags: "",
        value: OptionValue::UserAndPassword(','),
    },
];

/// The program that the words belong to, as far as it takes passwords.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Program {
    takes: Option<&'static PasswordOptions>,
    /// Whether the word that has to come before was seen.
    has_begun: bool,
}

/// What a word is to its program, with the value that is attached to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShortOption<'a> {
    Other,
    Password(&'a str),
    UserAndPassword(&'a str, char),
}

impl Program {
    /// The program that the words behind this one belong to.
    pub(super) fn after(self, word: &str) -> Program {
        if matches!(word, "|" | "||" | "&&" | "&") || word.ends_with(';') {
            return Program::default();
        }
        // Also in a script's list of arguments: `run(["/usr/bin/mysql"`.
        let name = word.trim_matches(|c: char| !c.is_alphanumeric());
        let is_before = |c: char| matches!(c, '/' | '"' | '\'' | '(' | '[' | '`' | '=');
        let name = name.rsplit(is_before).next().unwrap_or(name);
        if let Some(takes) = KNOWN.iter().find(|known| known.programs.contains(&name)) {
            return Program {
                takes: Some(takes),
                has_begun: takes.after.is_none(),
            };
        }
        match (name, self.takes) {
            // What `sshpass` runs: its `-p` is the port.
            ("ssh" | "scp" | "sftp", _) => Program::default(),
            (name, Some(takes)) if takes.after == Some(name) => Program {
                has_begun: true,
                ..self
            },
            _ => self,
        }
    }

    /// What a word is to this program.
    pub(super) fn short_option(self, word: &str) -> ShortOption<'_> {
        let Some(takes) = self.takes.filter(|_| self.has_begun) else {
            return ShortOption::Other;
        };
        let word = word.trim_start_matches(['"', '\'', '[', '(']);
        if takes.options.is_empty() && is_key(word) {
            return ShortOption::Password(word);
        }
        let attached = takes
            .options
            .iter()
            .find_map(|option| match option.strip_prefix("--") {
                Some(_) if word == *option => Some(""),
                Some(_) => word.strip_prefix(option)?.strip_prefix('='),
                None => attached_to(word, option, takes.flags),
            });
        match (attached, takes.value) {
            // Ports, which such programs get from others: `docker run --name mysql -p 80:80`.
            (Some(value), _) if is_port_mapping(value) => ShortOption::Other,
            (Some(value), OptionValue::Password) => ShortOption::Password(value),
            (Some(value), OptionValue::UserAndPassword(between)) => {
                ShortOption::UserAndPassword(value, between)
            }
            (None, _) => ShortOption::Other,
        }
    }
}

/// Addresses, paths and variables have other characters than keys.
fn is_key(word: &str) -> bool {
    let belongs = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let bare = word.trim_end_matches(['"', '\'', ']', ')', ';', ',']);
    !bare.is_empty() && bare.bytes().all(belongs) && !bare.starts_with('-')
}

/// What stands behind a short option in the same word, with flags in front of it or none.
fn attached_to<'a>(word: &'a str, option: &str, flags: &str) -> Option<&'a str> {
    if let Some(value) = word.strip_prefix(option) {
        return Some(value);
    }
    let letters = word.strip_prefix('-')?;
    letters
        .trim_start_matches(|c: char| flags.contains(c))
        .strip_prefix(option.strip_prefix('-')?)
}

/// `80:80`
pub(super) fn is_port_mapping(value: &str) -> bool {
    let mut parts = value.split(':');
    value.contains(':')
        && parts.all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}
