//! The names under which people pass secrets, and the beginnings by which services mark theirs.

/// Words that make a name secret on their own.
pub(super) const SECRET_WORDS: &[&str] = &[
    "token",
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "secrets",
    "credential",
    "credentials",
    "apikey",
    "authtoken",
    "accesstoken",
    "authorization",
    "cookie",
];

/// Ends of words that make a name secret, where the words are written as one: `PGPASSWORD`, `--hftoken`.
pub(super) const SECRET_ENDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "secret",
    "token",
];

/// What stands before `PASS` in variables that are no passwords.
pub(super) const NOT_BEFORE_PASS: &[&str] = &[
    "all", "band", "by", "com", "encom", "high", "im", "low", "multi", "over", "single", "sur",
    "tres", "under",
];

/// Services whose key is a secret where it follows their name: `--wandb-key`, `--openai_key`.
pub(super) const SERVICES: &[&str] = &[
    "anthropic",
    "aws",
    "azure",
    "clearml",
    "cohere",
    "comet",
    "deepseek",
    "gemini",
    "github",
    "gitlab",
    "google",
    "groq",
    "hf",
    "huggingface",
    "kaggle",
    "mistral",
    "neptune",
    "ngc",
    "nvidia",
    "openai",
    "openrouter",
    "pinecone",
    "replicate",
    "slack",
    "stripe",
    "together",
    "wandb",
];

/// Words that make a key secret: `api_key`, `--access-key`.
pub(super) const SECRET_KEYS: &[&str] = &[
    "api",
    "access",
    "private",
    "secret",
    "auth",
    "account",
    "encryption",
    "service",
    "license",
];

/// Words beside which a token is one of text: `--pad-token`, `--token-count`, `num_token`.
pub(super) const TEXT_TOKENS: &[&str] = &[
    "pad",
    "eos",
    "bos",
    "unk",
    "mask",
    "sep",
    "cls",
    "special",
    "image",
    "video",
    "audio",
    "start",
    "end",
    "stop",
    "max",
    "min",
    "num",
    "n",
    "per",
    "total",
    "id",
    "ids",
    "index",
    "count",
    "counts",
    "len",
    "length",
    "size",
    "dim",
    "type",
    "types",
    "level",
    "limit",
    "budget",
    "loss",
    "batch",
    "embedding",
    "embeddings",
    "drop",
    "dropout",
    "freq",
    "weight",
    "avg",
    "average",
    "mean",
    "new",
    "file",
    "path",
    "added",
    "prefix",
    "suffix",
    "first",
    "last",
    "next",
    "sub",
    "multi",
    "pre",
    "de",
    "re",
    "text",
    "word",
    "visual",
];

/// Beginnings of secrets that their services chose to be recognised, and how many letters and digits follow at least.
pub(super) const KNOWN_BEGINNINGS: &[(&str, usize)] = &[
    ("hf_", 16),
    ("api_org_", 16),
    ("sk-", 16),
    ("sk_live_", 12),
    ("sk_test_", 12),
    ("ghp_", 16),
    ("gho_", 16),
    ("ghu_", 16),
    ("ghs_", 16),
    ("ghr_", 16),
    ("github_pat_", 16),
    ("glpat-", 16),
    ("xoxa-", 8),
    ("xoxb-", 8),
    ("xoxp-", 8),
    ("xoxr-", 8),
    ("xoxs-", 8),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("ya29.", 16),
    ("nvapi-", 16),
    ("dckr_pat_", 16),
    ("npm_", 30),
    ("pypi-", 30),
    ("r8_", 30),
    ("eyJhbGci", 16),
];

/// Schemes that stand between `Authorization:` and the secret.
pub(super) const SCHEMES: &[&str] = &["bearer", "basic", "token", "digest", "negotiate", "apikey"];

/// Programs whose `-u` takes `NAME:PASSWORD`.
pub(super) const TAKE_USER: &[&str] = &["curl", "http", "https", "httpie"];

/// Programs whose `-p` is a password; for most it is a port, a path or a prefix.
pub(super) const TAKE_PASSWORD: &[&str] = &[
    "mysql",
    "mysqldump",
    "mysqladmin",
    "mysqlimport",
    "mariadb",
    "mariadb-dump",
    "mongo",
    "mongosh",
    "mongodump",
    "mongorestore",
    "sshpass",
];

/// Programs whose `-p` is a password after `login`.
pub(super) const LOG_IN: &[&str] = &["docker", "podman", "helm", "az"];
