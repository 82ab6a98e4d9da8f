//! Replay buffers and caches.

use nilo_sample::units::format_bytes;

use super::figures::{LEAST_BYTES, host_memory, percent};
use super::{AdviceRule, AdviceSubject, Found, found};
use crate::facts::{BufferFacts, Facts};

/// Frames are worth compressing where compression makes them this many times smaller.
const FRAMES_COMPRESS: f64 = 1.5;
/// Next observations are the following observations where that held for this share of a sample.
const REPEATS: f64 = 0.9;
/// A buffer that will take more than this share of the memory limit leaves too little for everything else.
const MOST_OF_LIMIT: f64 = 0.8;

pub(super) const RULES: &[AdviceRule] = &[
    AdviceRule {
        name: "compress-frames",
        subject: AdviceSubject::Buffers,
        condition: "compression makes the frames of a buffer more than 1.5 times smaller",
        needs: &["buffers.image_compression_ratio", "buffers.image_bytes"],
        source: "frames of Atari games took 74 to 97 % less in our measurement",
        look: |facts| of_largest(facts, compress_frames),
    },
    AdviceRule {
        name: "drop-next-observations",
        subject: AdviceSubject::Buffers,
        condition: "more than 90 % of next observations are the observation that follows",
        needs: &[
            "buffers.next_observation_repeats_ratio",
            "buffers.next_observation_bytes",
        ],
        source: "Stable-Baselines3's optimize_memory_usage; rail-berkeley/softlearning#65",
        look: |facts| of_largest(facts, drop_next_observations),
    },
    AdviceRule {
        name: "store-single-frames",
        subject: AdviceSubject::Buffers,
        condition: "observations are stacks of frames that share all but one with their neighbours",
        needs: &["buffers.stacked_frames", "buffers.image_bytes"],
        source: "each frame once: 57 kB a transition became 7.2 kB in our measurement, before compression",
        look: |facts| of_largest(facts, store_single_frames),
    },
    AdviceRule {
        name: "store-float32",
        subject: AdviceSubject::Buffers,
        condition: "a buffer holds float64 values that float32 can hold",
        needs: &["buffers.float64_bytes"],
        source: "arithmetic: 4 bytes instead of 8",
        look: |facts| of_largest(facts, store_float32),
    },
    AdviceRule {
        name: "narrow-integers",
        subject: AdviceSubject::Buffers,
        condition: "a buffer holds 64-bit integers that fit into 32 bits or less",
        needs: &["buffers.int64_bytes", "buffers.int64_largest"],
        source: "arithmetic; 75 % of what compression saves on token ids is this cast",
        look: |facts| of_largest(facts, narrow_integers),
    },
    AdviceRule {
        name: "bound-buffer",
        subject: AdviceSubject::Buffers,
        condition: "a full buffer will take more than 80 % of the memory limit, or more than buffer_size_limit_mb",
        needs: &[
            "buffers.projected_bytes",
            "host.limit_bytes|thresholds.buffer_limit_bytes",
        ],
        source: "DLR-RM/stable-baselines3#37, #1936: memory ran out hours later, when the buffer had filled",
        look: |facts| of_largest(facts, bound_buffer),
    },
];

/// What a rule finds in the buffer for which it saves most.
fn of_largest(
    facts: &Facts,
    look: fn(&Facts, &BufferFacts) -> Option<(f64, Found)>,
) -> Option<Found> {
    let found = facts
        .buffers
        .iter()
        .filter_map(|buffer| look(facts, buffer));
    let most = found.max_by(|(a, _), (b, _)| a.total_cmp(b));
    most.map(|(_, found)| found)
}

fn name(buffer: &BufferFacts) -> String {
    match buffer.name.as_str() {
        "" => "the buffer".to_owned(),
        name => format!("buffer '{name}'"),
    }
}

/// With the bytes that are saved, out of what the program holds.
fn saving(facts: &Facts, bytes: f64, found: Found) -> Option<(f64, Found)> {
    let of_all = facts.host.peak_bytes.filter(|peak| *peak >= bytes);
    (bytes >= LEAST_BYTES).then(|| (bytes, found.saves(host_memory(bytes, of_all))))
}

fn is_ours(buffer: &BufferFacts) -> bool {
    buffer.library.as_deref() == Some("nilometer")
}

const OURS: &str = "nilometer.ReplayBuffer takes the place of Stable-Baselines3's ReplayBuffer";

fn compress_frames(facts: &Facts, buffer: &BufferFacts) -> Option<(f64, Found)> {
    let (ratio, bytes) = (buffer.image_compression_ratio?, buffer.image_bytes?);
    if ratio <= FRAMES_COMPRESS || is_ours(buffer) {
        return None;
    }
    let found = found("Store the frames of the replay buffer compressed", OURS).because(format!(
        "{} holds {} of frames, which compression makes {ratio:.1} times smaller",
        name(buffer),
        format_bytes(bytes)
    ));
    saving(facts, bytes * (1.0 - 1.0 / ratio), found)
}

fn drop_next_observations(facts: &Facts, buffer: &BufferFacts) -> Option<(f64, Found)> {
    let repeats = buffer.next_observation_repeats_ratio?.min(1.0);
    let bytes = buffer.next_observation_bytes?;
    if repeats <= REPEATS || is_ours(buffer) {
        return None;
    }
    let found = found(
        "Do not store next observations: they are the observations of the transitions that follow",
        format!("{OURS} and stores each once; with theirs, optimize_memory_usage=True"),
    )
    .because(format!(
        "{} of the next observations of {} are the observation that follows; they take {}",
        percent(repeats),
        name(buffer),
        format_bytes(bytes)
    ));
    saving(facts, repeats * bytes, found)
}

fn store_single_frames(facts: &Facts, buffer: &BufferFacts) -> Option<(f64, Found)> {
    let (stacked, bytes) = (buffer.stacked_frames?, buffer.image_bytes?);
    if stacked < 2 || is_ours(buffer) {
        return None;
    }
    let found =
        found("Store each frame once and stack frames when sampling", OURS).because(format!(
            "{} holds {} in stacks of {stacked} frames, of which neighbours share all but one",
            name(buffer),
            format_bytes(bytes)
        ));
    saving(facts, bytes * (1.0 - 1.0 / stacked as f64), found)
}

fn store_float32(facts: &Facts, buffer: &BufferFacts) -> Option<(f64, Found)> {
    let bytes = buffer.float64_bytes?;
    let found = found(
        "Store float64 observations as float32",
        "observation_space dtype=np.float32, or array.astype(np.float32) before adding",
    )
    .because(format!(
        "{} holds {} of float64",
        name(buffer),
        format_bytes(bytes)
    ));
    saving(facts, bytes / 2.0, found)
}

fn narrow_integers(facts: &Facts, buffer: &BufferFacts) -> Option<(f64, Found)> {
    let (bytes, largest) = (buffer.int64_bytes?, buffer.int64_largest?);
    let (narrow, width) = match largest {
        0..=0xff => ("uint8", 1.0),
        0x100..=0xffff => ("uint16", 2.0),
        0x1_0000..=0xffff_ffff => ("uint32", 4.0),
        _ => return None,
    };
    let found = found(
        format!("Store integers as {narrow}"),
        format!("array.astype(np.{narrow}); convert to int64 after sampling"),
    )
    .because(format!(
        "{} holds {} of 64-bit integers, the largest of which is {largest}",
        name(buffer),
        format_bytes(bytes)
    ));
    saving(facts, bytes * (1.0 - width / 8.0), found)
}

fn bound_buffer(facts: &Facts, buffer: &BufferFacts) -> Option<(f64, Found)> {
    let projected = buffer.projected_bytes?;
    let of_limit = facts.host.limit_bytes.map(|limit| {
        let text = format!("the memory limit is {}", format_bytes(limit));
        (MOST_OF_LIMIT * limit, text)
    });
    let of_config = facts.thresholds.buffer_limit_bytes.map(|limit| {
        let text = format!("buffer_size_limit_mb allows {}", format_bytes(limit));
        (limit, text)
    });
    let bounds = of_limit.into_iter().chain(of_config);
    let (bound, text) = bounds.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (projected > bound).then(|| {
        let change = format!(
            "nilometer.ReplayBuffer(..., max_bytes={:.0}, spill_dir=...)",
            bound / 2.0
        );
        let found = found("Give the buffer a memory budget before it fills", change)
            .because(format!(
                "{} will take {} when it is full",
                name(buffer),
                format_bytes(projected)
            ))
            .because(text);
        (projected, found)
    })
}
