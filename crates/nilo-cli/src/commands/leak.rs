//! `nilo leak`: what grows without end.

use std::io::Write;

use nilo_analysis::forecast::GrowthKind;
use nilo_analysis::lookout::{OddPeer, Resource, Verdict};
use nilo_sample::units::{MIB, to_secs};
use serde::Serialize;

use crate::args::{LeakArgs, TextOrJson};
use crate::failure::Failure;
use crate::outlook::{Outlook, Source};
use crate::settings::Settings;
use crate::text::leak::{write_check, write_leaks};

pub(crate) fn run(args: LeakArgs, settings: &Settings) -> Result<u8, Failure> {
    let sensible = |mib: f64| mib > 0.0 && mib.is_finite();
    if let Some(mib) = args.threshold.filter(|mib| !sensible(*mib)) {
        return Err(
            Failure::new(format!("a threshold of {mib} MB means nothing"))
                .hint("it is more than 0; growth below it is left out"),
        );
    }
    let outlook = Outlook::of(&args.judged, settings)?;
    let least_bytes = args.threshold.map(|mib| mib * MIB as f64);
    let mut verdicts = outlook.lookout.verdicts(least_bytes);
    verdicts.sort_by_key(|verdict| std::cmp::Reverse(verdict.growth.map(|growth| growth.kind)));
    let mut out = std::io::stdout().lock();
    match (args.format, args.check) {
        (TextOrJson::Text, true) => write_check(&mut out, &verdicts)?,
        (TextOrJson::Text, false) => write_leaks(&mut out, &outlook, &verdicts)?,
        (TextOrJson::Json, check) => {
            let answer = Answer::of(&outlook, &verdicts, args.threshold);
            match check {
                true => serde_json::to_writer(&mut out, &answer),
                false => serde_json::to_writer_pretty(&mut out, &answer),
            }
            .map_err(std::io::Error::from)?;
            out.write_all(b"\n")?;
        }
    }
    Ok(u8::from(verdicts.iter().any(is_leak)))
}

/// Whether what was found is sure to be one.
pub(crate) fn is_leak(verdict: &Verdict) -> bool {
    let growth = verdict.growth;
    growth.is_some_and(|growth| growth.kind == GrowthKind::Leak)
}

/// The answer as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    schema: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    running: bool,
    end_secs: f64,
    threshold_mb: Option<f64>,
    leak: bool,
    resources: Vec<AnswerResource<'a>>,
}

#[derive(Serialize)]
struct AnswerResource<'a> {
    name: String,
    resource: &'a Resource,
    /// `leak`, `growth` or nothing.
    kind: Option<GrowthKind>,
    growth_bytes_per_sec: Option<f64>,
    growth_low_bytes_per_sec: Option<f64>,
    growth_high_bytes_per_sec: Option<f64>,
    grown_bytes: Option<f64>,
    grown_over_secs: Option<f64>,
    #[serde(skip_serializing_if = "<[OddPeer]>::is_empty")]
    odd_peers: &'a [OddPeer],
    used_bytes: f64,
    limit_bytes: Option<f64>,
    too_short: bool,
    readings: u64,
    watched_secs: f64,
}

impl<'a> Answer<'a> {
    fn of(outlook: &'a Outlook, verdicts: &'a [Verdict], threshold_mb: Option<f64>) -> Answer<'a> {
        let (run, file) = match &outlook.source {
            Source::Run { id, .. } => (Some(id.as_str()), None),
            Source::File { path, .. } => (None, Some(path.as_str())),
        };
        Answer {
            schema: "nilo.leak/1",
            run,
            file,
            running: outlook.source.is_running(),
            end_secs: to_secs(outlook.end_nanos),
            threshold_mb,
            leak: verdicts.iter().any(is_leak),
            resources: verdicts.iter().map(AnswerResource::of).collect(),
        }
    }
}

impl<'a> AnswerResource<'a> {
    fn of(verdict: &'a Verdict) -> AnswerResource<'a> {
        let growth = verdict.growth;
        AnswerResource {
            name: verdict.resource.to_string(),
            resource: &verdict.resource,
            kind: growth.map(|growth| growth.kind),
            growth_bytes_per_sec: growth.map(|growth| growth.bytes_per_sec),
            growth_low_bytes_per_sec: growth.map(|growth| growth.bytes_per_sec_low),
            growth_high_bytes_per_sec: growth.map(|growth| growth.bytes_per_sec_high),
            odd_peers: &verdict.odd_peers,
            grown_bytes: growth.map(|growth| growth.grown_bytes),
            grown_over_secs: growth.map(|growth| growth.lasted_secs),
            used_bytes: verdict.reading.needed_bytes(),
            limit_bytes: verdict.reading.limit_bytes,
            too_short: verdict.too_young,
            readings: verdict.readings,
            watched_secs: verdict.watched_secs,
        }
    }
}
