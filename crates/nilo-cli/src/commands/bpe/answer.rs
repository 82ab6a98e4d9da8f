//! What a training has to say in the end: notes for people, JSON for programs.

use nilo_answer::bpe_train::{BPE_TRAIN_SCHEMA, BpeTrainAnswer, TextTotals};
use nilo_tokenizer::CorpusTotals;

use super::stages::Stages;
use super::train::Trained;
use crate::args::{BpeTrainArgs, TextOrJson};
use crate::failure::{Failure, note};
use crate::text::json::write_json;

/// Says it.
pub(super) fn tell(
    args: &BpeTrainArgs,
    trained: &Trained,
    stages: &Stages,
    peak_bytes: Option<u64>,
    quiet: bool,
) -> Result<(), Failure> {
    let files: Vec<String> = trained
        .files
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    if !quiet {
        let wanted = args.vocab_size as usize;
        if trained.model.vocabulary_size() < wanted {
            note(&format!(
                "the texts yield only {} tokens, not the {wanted} requested",
                trained.model.vocabulary_size()
            ));
        }
        if trained.totals.invalid_bytes > 0 {
            note(&format!(
                "{} bytes of the text are not valid UTF-8; they were counted as raw bytes",
                trained.totals.invalid_bytes
            ));
        }
        note(&format!(
            "Training completed in {:.2} seconds",
            stages.wall_secs()
        ));
        if args.recording.cpu_profile {
            note(stages.table().trim_end());
        }
        note(&format!("wrote {}", files.join(", ")));
    }
    if args.format == TextOrJson::Json {
        let answer = BpeTrainAnswer {
            schema: BPE_TRAIN_SCHEMA,
            vocabulary_size: trained.model.vocabulary_size(),
            merges: trained.merges,
            special_tokens: args.texts.special_tokens.clone(),
            totals: totals(&trained.totals),
            wall_secs: stages.wall_secs(),
            stages: stages.done.clone(),
            predicted_peak_bytes: trained.predicted_peak_bytes,
            peak_bytes,
            files,
        };
        write_json(&mut std::io::stdout().lock(), &answer)?;
    }
    Ok(())
}

fn totals(totals: &CorpusTotals) -> TextTotals {
    TextTotals {
        documents: totals.documents,
        text_bytes: totals.text_bytes,
        words: totals.words,
        distinct_words: totals.distinct_words,
        distinct_bytes: totals.distinct_bytes,
        invalid_bytes: totals.invalid_bytes,
    }
}
