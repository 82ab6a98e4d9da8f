//! Names of the files that a checkpoint is split into: `model-00001-of-00003.safetensors`.

use std::path::Path;

/// The most digits of a number in such a name.
const MOST_DIGITS: usize = 9;

/// The name of one part, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartName {
    /// What comes before the numbers.
    pub(crate) stem: String,
    /// How many parts there are.
    pub(crate) count: u32,
    digits: usize,
    extension: String,
}

impl PartName {
    /// The parts of a name, where it has the form of one.
    pub(crate) fn parse(name: &str) -> Option<PartName> {
        let (rest, extension) = name.rsplit_once('.')?;
        let (rest, count) = rest.rsplit_once("-of-")?;
        let (stem, part) = rest.rsplit_once('-')?;
        let digits = count.len();
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if digits > MOST_DIGITS || part.len() != digits || !is_number(part) || !is_number(count) {
            return None;
        }
        let (part, count): (u32, u32) = (part.parse().ok()?, count.parse().ok()?);
        let name = PartName {
            stem: stem.to_owned(),
            count,
            digits,
            extension: extension.to_owned(),
        };
        (1..=count).contains(&part).then_some(name)
    }

    /// The file name of a part; the first one is 1.
    pub(crate) fn of_part(&self, part: u32) -> String {
        let PartName {
            stem,
            count,
            digits,
            extension,
        } = self;
        format!("{stem}-{part:0digits$}-of-{count:0digits$}.{extension}")
    }

    /// The file names of all parts.
    pub(crate) fn all(&self) -> impl Iterator<Item = String> {
        (1..=self.count).map(|part| self.of_part(part))
    }
}

/// The last component of a path, for people and for comparing.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_name_gives_the_names_of_all_parts() {
        let name = PartName::parse("llama-7b-00002-of-00003.gguf").expect("a part");
        assert_eq!((name.stem.as_str(), name.count), ("llama-7b", 3));
        let all = [
            "llama-7b-00001-of-00003.gguf",
            "llama-7b-00002-of-00003.gguf",
            "llama-7b-00003-of-00003.gguf",
        ];
        assert_eq!(name.all().collect::<Vec<_>>(), all);
    }

    #[test]
    fn other_names_are_not_parts() {
        for name in [
            "model.safetensors",
            "model-1-of-03.gguf",
            "model-00000-of-00003.gguf",
            "model-00004-of-00003.gguf",
            "model-00001-of-+0003.gguf",
            "model-00001-of-.gguf",
            "model--of-.gguf",
            "model-0000000001-of-0000000003.gguf",
            "model-00001-of-00003",
            "",
        ] {
            assert_eq!(PartName::parse(name), None, "{name}");
        }
    }
}
