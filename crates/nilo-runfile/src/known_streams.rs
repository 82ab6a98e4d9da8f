//! The streams of a run that has ended, as its `run.json` lists them: a file that is deleted or emptied leaves no other trace.

use std::collections::BTreeMap;
use std::path::Path;

use nilo_sample::RunDescription;

use crate::header::Magic;
use crate::load::{StreamParts, open_with_header};
use crate::names;

/// The number of segments of each stream that is there now, in files of their own or in blocks. A segment without a header is none yet.
pub(crate) fn streams_now(folder: &Path) -> BTreeMap<String, u32> {
    let files = names::list(folder).unwrap_or_default();
    let count = |writer: &str, stream: &names::StreamFiles| {
        let parts = StreamParts::find(folder, writer, stream, &mut Vec::new());
        let has_header = |number: &u32| match parts.segments.get(number) {
            Some(path) => open_with_header(path, Magic::Segment).is_ok(),
            None => true,
        };
        let last = parts.numbers.iter().rev().find(|number| has_header(number));
        last.map(|last| last + 1)
    };
    let counted = files.streams.iter();
    counted
        .filter_map(|(writer, stream)| Some((writer.clone(), count(writer, stream)?)))
        .collect()
}

/// The streams that a description tells of. It may be forged, and names go into sentences: those that no writer has are left out.
pub(crate) fn streams_told(told: &RunDescription) -> impl Iterator<Item = (&str, u32)> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let streams = told.streams.iter();
    let streams = streams.map(|(writer, segments)| (writer.as_str(), *segments));
    streams.filter(move |(writer, _)| !writer.is_empty() && writer.chars().all(is_plain))
}

/// How many segments a stream had when its run ended; 0 where that is not told.
pub(crate) fn segments_known(writer: &str, told: &RunDescription) -> u32 {
    told.streams.get(writer).copied().unwrap_or(0)
}
