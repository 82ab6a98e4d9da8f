//! Which files of a folder hold its model, as Hugging Face and llama.cpp lay models out.

use std::path::Path;

use crate::WeightsError;
use crate::one_file::PICKLE_EXTENSIONS;
use crate::part_name::PartName;

/// The index that `save_pretrained` writes.
const MODEL_INDEX: &str = "model.safetensors.index.json";

/// How the names of indexes end.
pub(crate) const INDEX_SUFFIX: &str = ".safetensors.index.json";

/// What the names of Mistral's own files begin with, which hold the same weights as those of Transformers beside them.
const CONSOLIDATED: &str = "consolidated";

/// What to read of a folder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FolderModel {
    /// An index and all it names.
    Index(String),
    /// These files, some of which may not be there.
    Files(Vec<String>),
}

/// The names of the files in a folder that may be weights or an index.
pub(crate) fn list_names(folder: &Path) -> Result<Vec<String>, WeightsError> {
    let failed = |source| WeightsError::Read {
        path: folder.to_path_buf(),
        source,
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        // A hidden file beside a model is none: macOS puts `._model.safetensors` on other file systems.
        if is_wanted(&name) && !name.starts_with('.') && !entry.path().is_dir() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn extension(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn is_wanted(name: &str) -> bool {
    let extension = extension(name);
    name.ends_with(INDEX_SUFFIX)
        || matches!(extension, "safetensors" | "gguf")
        || PICKLE_EXTENSIONS.contains(&extension)
}

/// Chooses among the sorted names of a folder.
pub(crate) fn choose(names: &[String], folder: &Path) -> Result<FolderModel, WeightsError> {
    if names.iter().any(|name| name == MODEL_INDEX) {
        return Ok(FolderModel::Index(MODEL_INDEX.to_owned()));
    }
    let is_safetensors =
        |name: &&String| name.ends_with(INDEX_SUFFIX) || extension(name) == "safetensors";
    let mut safetensors: Vec<&String> = names.iter().filter(is_safetensors).collect();
    if safetensors.iter().any(|name| name.starts_with("model")) {
        safetensors.retain(|name| !name.starts_with(CONSOLIDATED));
    }
    let (indexes, files): (Vec<&String>, Vec<&String>) = safetensors
        .into_iter()
        .partition(|name| name.ends_with(INDEX_SUFFIX));
    if let Some(index) = indexes.first() {
        return one_of(indexes.len(), index, folder).map(|()| FolderModel::Index((*index).clone()));
    }
    if !files.is_empty() {
        return Ok(FolderModel::Files(with_all_parts(&files)));
    }

    let gguf: Vec<&String> = names
        .iter()
        .filter(|name| extension(name) == "gguf")
        .collect();
    if let Some(first) = gguf.first() {
        let models = count_models(&gguf);
        return one_of(models, first, folder).map(|()| FolderModel::Files(with_all_parts(&gguf)));
    }

    let is_pickle = |name: &&String| PICKLE_EXTENSIONS.contains(&extension(name));
    let mut pickles: Vec<&String> = names.iter().filter(is_pickle).collect();
    // Beside the weights lie `optimizer.pt` and `training_args.bin`.
    pickles.sort_by_key(|name| !name.starts_with("pytorch_model"));
    Err(match pickles.first() {
        Some(pickle) => WeightsError::Pickle {
            path: folder.join(pickle),
        },
        None => WeightsError::NoWeights {
            path: folder.to_path_buf(),
        },
    })
}

/// Refuses several models.
fn one_of(count: usize, example: &str, folder: &Path) -> Result<(), WeightsError> {
    if count == 1 {
        return Ok(());
    }
    Err(WeightsError::SeveralModels {
        count,
        example: example.to_owned(),
        path: folder.to_path_buf(),
    })
}

/// How many models files are, where all parts of a split one count as one; the names are sorted.
fn count_models(names: &[&String]) -> usize {
    let mut models: Vec<(String, u32)> = names
        .iter()
        .map(|name| {
            PartName::parse(name).map_or(((*name).clone(), 0), |part| (part.stem, part.count))
        })
        .collect();
    models.sort_unstable();
    models.dedup();
    models.len()
}

/// The files together with the parts that should be beside them; the names are sorted.
///
/// One missing part is enough for an error, so of the missing ones only the first is added.
fn with_all_parts(names: &[&String]) -> Vec<String> {
    let mut files: Vec<String> = names.iter().map(|name| (*name).clone()).collect();
    for name in names {
        let missing = PartName::parse(name)
            .and_then(|part| part.all().find(|part| names.binary_search(&part).is_err()));
        if let Some(missing) = missing.filter(|missing| !files.contains(missing)) {
            files.push(missing);
        }
    }
    files.sort_unstable();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose_among(names: &[&str]) -> Result<FolderModel, String> {
        let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        names.sort_unstable();
        choose(&names, Path::new("models")).map_err(|error| error.to_string())
    }

    fn files(names: &[&str]) -> Result<FolderModel, String> {
        Ok(FolderModel::Files(
            names.iter().map(|name| (*name).to_owned()).collect(),
        ))
    }

    fn index(name: &str) -> Result<FolderModel, String> {
        Ok(FolderModel::Index(name.to_owned()))
    }

    #[test]
    fn the_index_of_transformers_comes_first() {
        let names = [
            "a.gguf",
            "consolidated.safetensors",
            "model-00001-of-00002.safetensors",
            MODEL_INDEX,
        ];
        assert_eq!(choose_among(&names), index(MODEL_INDEX));
    }

    #[test]
    fn the_only_index_is_used_under_any_name() {
        let name = "diffusion_pytorch_model.safetensors.index.json";
        assert_eq!(
            choose_among(&[name, "diffusion_pytorch_model-00001-of-00002.safetensors"]),
            index(name)
        );
        assert_eq!(
            choose_among(&["consolidated.safetensors.index.json"]),
            index("consolidated.safetensors.index.json")
        );
    }

    #[test]
    fn of_several_indexes_one_has_to_be_named() {
        let names = ["a.safetensors.index.json", "b.safetensors.index.json"];
        let sentence = "the folder has 2 models, so name one of them, such as a.safetensors.index.json: models";
        assert_eq!(choose_among(&names), Err(sentence.to_owned()));
    }

    #[test]
    fn consolidated_files_are_ignored_beside_those_of_transformers() {
        let names = [
            "consolidated.safetensors",
            "consolidated.safetensors.index.json",
            "model.safetensors",
        ];
        assert_eq!(choose_among(&names), files(&["model.safetensors"]));
        assert_eq!(
            choose_among(&["consolidated.safetensors"]),
            files(&["consolidated.safetensors"])
        );
    }

    #[test]
    fn safetensors_files_are_read_all_and_before_gguf_and_pickles() {
        let names = [
            "x.gguf",
            "pytorch_model.bin",
            "b.safetensors",
            "a.safetensors",
        ];
        assert_eq!(
            choose_among(&names),
            files(&["a.safetensors", "b.safetensors"])
        );
    }

    #[test]
    fn a_part_that_is_not_there_is_asked_for() {
        assert_eq!(
            choose_among(&[
                "m-00001-of-00003.safetensors",
                "m-00003-of-00003.safetensors"
            ]),
            files(&[
                "m-00001-of-00003.safetensors",
                "m-00002-of-00003.safetensors",
                "m-00003-of-00003.safetensors"
            ])
        );
        assert_eq!(
            choose_among(&["m-000000001-of-999999999.gguf"]),
            files(&[
                "m-000000001-of-999999999.gguf",
                "m-000000002-of-999999999.gguf"
            ])
        );
    }

    #[test]
    fn a_split_gguf_model_is_one_model_and_two_quantizations_are_two() {
        let names = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"];
        assert_eq!(choose_among(&names), files(&names));
        let sentence =
            "the folder has 2 models, so name one of them, such as m-Q4_K_M.gguf: models";
        assert_eq!(
            choose_among(&["m-Q8_0.gguf", "m-Q4_K_M.gguf"]),
            Err(sentence.to_owned())
        );
    }

    #[test]
    fn a_folder_of_pickles_says_what_to_do() {
        let sentence = |name: &str| {
            Err(format!(
                "the checkpoint is a pickle; convert it to safetensors: models/{name}"
            ))
        };
        assert_eq!(
            choose_among(&["optimizer.pt", "pytorch_model.bin"]),
            sentence("pytorch_model.bin")
        );
        assert_eq!(choose_among(&["weights.pth"]), sentence("weights.pth"));
    }

    #[test]
    fn a_folder_without_weights_says_so() {
        let sentence = "the folder has no .safetensors file and no .gguf file: models";
        assert_eq!(choose_among(&[]), Err(sentence.to_owned()));
    }
}
