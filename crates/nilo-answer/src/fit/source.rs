//! Which model is meant: a name of the catalogue, a configuration, or the files of a checkpoint.

use std::io::Read;
use std::path::{Path, PathBuf};

use nilo_model::catalogue::{find_model, models};
use nilo_model::config::{ConfigError, ModelConfig};
use nilo_weights::{Weights, WeightsError};

/// A configuration has a few kilobytes.
const LARGEST_CONFIG_BYTES: u64 = 4 << 20;
/// Names at least so alike are suggested.
const ALIKE: f64 = 0.8;

/// A model, as far as it is known.
#[derive(Debug, Clone)]
pub struct FitModel {
    /// Its name, or that of its file.
    pub name: String,
    /// Its architecture.
    pub config: Option<ModelConfig>,
    /// Its weights, as the header of a checkpoint tells them.
    pub weights: Option<Weights>,
    /// What it says of itself that was not understood.
    pub config_problem: Option<String>,
}

/// Why a model cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum FitModelError {
    /// Neither a file nor a name.
    #[error("{asked:?} is neither a file nor the name of a known model")]
    Unknown {
        /// What was asked for.
        asked: String,
        /// A name that is nearly alike.
        suggestion: Option<String>,
    },
    /// The configuration does not describe a known model.
    #[error("{problem}: {}", path.display())]
    Config {
        /// What is wrong with it.
        problem: ConfigError,
        /// Its file.
        path: PathBuf,
    },
    /// The checkpoint cannot be read.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The operating system refuses.
    #[error("cannot read the configuration ({source}): {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A pipe, a device or a socket.
    #[error("the configuration is not a regular file: {}", path.display())]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// A configuration as long as a checkpoint.
    #[error("the configuration has more than {LARGEST_CONFIG_BYTES} bytes: {}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
}

impl FitModelError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { suggestion: Some(name), .. } => {
                Some(format!("did you mean {name}? `nilo fit --list` lists all names; a config.json, a folder of a model, a .safetensors or a .gguf file will do as well"))
            }
            Self::Unknown { .. } => Some("`nilo fit --list` lists all names; a config.json, a folder of a model, a .safetensors or a .gguf file will do as well".to_owned()),
            Self::Config { problem: ConfigError::UnknownArchitecture { .. } | ConfigError::UnknownVariant { .. }, .. } => {
                Some("nilometer.fit.estimate(model) in Python estimates any PyTorch model by tracing it, without a GPU".to_owned())
            }
            _ => None,
        }
    }
}

impl FitModel {
    /// Finds a model by what was typed.
    pub fn find(asked: &str) -> Result<Self, FitModelError> {
        let path = Path::new(asked);
        if path.exists() {
            return Self::at(path);
        }
        let Some(known) = find_model(asked) else {
            return Err(FitModelError::Unknown {
                asked: asked.to_owned(),
                suggestion: nearest(asked),
            });
        };
        let config = known.config().map_err(|problem| FitModelError::Config {
            problem,
            path: PathBuf::from(known.slug),
        })?;
        Ok(Self {
            name: known.name.to_owned(),
            config: Some(config),
            weights: None,
            config_problem: None,
        })
    }

    fn at(path: &Path) -> Result<Self, FitModelError> {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let name = name.to_string_lossy().into_owned();
        if path.is_dir() {
            return Self::of_folder(path, name);
        }
        let is_index = name.ends_with(".index.json");
        if name.ends_with(".json") && !is_index {
            let config = read_config(path)?;
            return Ok(Self {
                name,
                config: Some(config),
                weights: None,
                config_problem: None,
            });
        }
        let weights = Weights::read(path)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let (config, config_problem) = config_beside(folder);
        Ok(Self {
            name,
            config,
            weights: Some(weights),
            config_problem,
        })
    }

    /// A folder as Hugging Face lays models out: a configuration, weights, or both.
    fn of_folder(path: &Path, name: String) -> Result<Self, FitModelError> {
        let config_path = path.join("config.json");
        if !config_path.exists() {
            return Ok(Self {
                name,
                config: None,
                weights: Some(Weights::read(path)?),
                config_problem: None,
            });
        }
        let weights = match Weights::read(path) {
            Ok(weights) => Some(weights),
            Err(WeightsError::NoWeights { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        match (read_config(&config_path), &weights) {
            (Ok(config), _) => Ok(Self {
                name,
                config: Some(config),
                weights,
                config_problem: None,
            }),
            (Err(error), Some(_)) => Ok(Self {
                name,
                config: None,
                weights,
                config_problem: Some(error.to_string()),
            }),
            (Err(error), None) => Err(error),
        }
    }
}

fn config_beside(folder: &Path) -> (Option<ModelConfig>, Option<String>) {
    let path = folder.join("config.json");
    if !path.exists() {
        return (None, None);
    }
    match read_config(&path) {
        Ok(config) => (Some(config), None),
        Err(error) => (None, Some(error.to_string())),
    }
}

fn read_config(path: &Path) -> Result<ModelConfig, FitModelError> {
    let failed = |source| FitModelError::Read {
        path: path.to_owned(),
        source,
    };
    // A pipe would be waited for.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(FitModelError::NotAFile {
            path: path.to_owned(),
        });
    }
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(LARGEST_CONFIG_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > LARGEST_CONFIG_BYTES {
        return Err(FitModelError::TooLarge {
            path: path.to_owned(),
        });
    }
    let text = String::from_utf8_lossy(&bytes);
    ModelConfig::from_json(&text).map_err(|problem| FitModelError::Config {
        problem,
        path: path.to_owned(),
    })
}

/// The name of the catalogue that is nearest to a word.
fn nearest(asked: &str) -> Option<String> {
    let wanted = asked.to_ascii_lowercase();
    let likeness = |slug: &str| strsim::jaro_winkler(slug, &wanted);
    let best = models()
        .into_iter()
        .max_by(|a, b| likeness(a.slug).total_cmp(&likeness(b.slug)))?;
    (likeness(best.slug) >= ALIKE).then(|| best.slug.to_owned())
}
