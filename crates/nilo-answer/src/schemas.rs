//! The JSON schemas of all answers, as `docs/schema/` has them.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use nilo_advice::Facts;
use nilo_analysis::{Comparison, Summary};

use crate::alert::AlertMessage;
use crate::bpe_train::BpeTrainAnswer;
use crate::fit::answer::FitAnswer;
use crate::fit::check::FitCheckAnswer;
use crate::fit::growth::FitGrowthAnswer;
use crate::fit::model_table::ModelTableAnswer;
use crate::fit::names::FitNamesAnswer;
use crate::fit::truth::FitTruthAnswer;
use crate::gpu::GpuAnswer;
use crate::leak::LeakAnswer;
use crate::monitor::MonitorEvent;
use crate::oom::OomAnswer;
use crate::optimize::OptimizeAnswer;
use crate::profile::ProfileAnswer;
use crate::pruned::PrunedAnswer;
use crate::ps::PsAnswer;
use crate::recording::ExportedRecording;
use crate::removed::RemovedAnswer;
use crate::request::RequestAnswer;
use crate::runs::RunsAnswer;
use crate::snapshot::diff::SnapshotDiffAnswer;
use crate::snapshot::leaks::SnapshotLeaksAnswer;
use crate::snapshot::summary::SnapshotSummaryAnswer;
use crate::snapshot::whatif::SnapshotWhatIfAnswer;
use crate::snapshot::why::SnapshotWhyAnswer;
use crate::verify::VerifyAnswer;

/// Every answer by the name of its file, without `.json`.
pub fn schemas() -> Vec<(&'static str, Schema)> {
    vec![
        schema_of::<AlertMessage>("alert"),
        schema_of::<BpeTrainAnswer>("bpe-train"),
        schema_of::<Comparison>("compare"),
        told_schema_of::<Facts>("facts"),
        schema_of::<FitAnswer>("fit"),
        schema_of::<FitCheckAnswer>("fit-check"),
        schema_of::<FitGrowthAnswer>("fit-growth"),
        schema_of::<FitNamesAnswer>("fit-names"),
        schema_of::<ModelTableAnswer>("fit-table"),
        schema_of::<FitTruthAnswer>("fit-truth"),
        schema_of::<GpuAnswer>("gpu"),
        schema_of::<LeakAnswer>("leak"),
        schema_of::<MonitorEvent>("monitor"),
        schema_of::<OomAnswer>("oom"),
        schema_of::<OptimizeAnswer>("optimize"),
        schema_of::<ProfileAnswer>("profile"),
        schema_of::<PrunedAnswer>("prune"),
        schema_of::<PsAnswer>("ps"),
        schema_of::<ExportedRecording>("recording"),
        schema_of::<RequestAnswer>("request"),
        schema_of::<RemovedAnswer>("rm"),
        schema_of::<RunsAnswer>("runs"),
        schema_of::<Summary>("show"),
        schema_of::<SnapshotDiffAnswer>("snapshot-diff"),
        schema_of::<SnapshotLeaksAnswer>("snapshot-leaks"),
        schema_of::<SnapshotSummaryAnswer>("snapshot-summary"),
        schema_of::<SnapshotWhatIfAnswer>("snapshot-whatif"),
        schema_of::<SnapshotWhyAnswer>("snapshot-why"),
        schema_of::<VerifyAnswer>("verify"),
    ]
}

/// What is written, not what could be read: keys that are always there are required.
fn schema_of<T: JsonSchema>(name: &'static str) -> (&'static str, Schema) {
    named::<T>(name, SchemaSettings::draft2020_12().for_serialize())
}

/// What a program tells us: keys may be absent.
fn told_schema_of<T: JsonSchema>(name: &'static str) -> (&'static str, Schema) {
    named::<T>(name, SchemaSettings::draft2020_12().for_deserialize())
}

fn named<T: JsonSchema>(name: &'static str, settings: SchemaSettings) -> (&'static str, Schema) {
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), format!("nilo.{name}/1").into());
    (name, schema)
}
