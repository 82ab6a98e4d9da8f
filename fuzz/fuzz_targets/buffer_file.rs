//! Any bytes as a file of a replay buffer: refused in one sentence or loaded, never a panic; what is loaded can be sampled and added to, or says that it is damaged.
//!
//! Checksums would stop nearly every input at the door, so an input whose first byte is odd is taken as the payloads of a file, which get right checksums.
//! Its second byte chooses a small buffer that the payloads replace from some section on.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilo_buffer::{
    BatchTargets, ColumnSettings, ElementKind, FrameCodec, LoadOptions, ObservationSettings, ReplaySettings, ReplayStore, Returns, StackAxis,
    Step,
};

/// Loaded buffers with larger rows than this are not read: only the memory for a batch would be tried.
const MOST_ROW_BYTES: usize = 1 << 16;

fn small_buffer(choice: u8) -> Vec<u8> {
    let stack = if choice & 1 != 0 { 2 } else { 1 };
    let mut store = ReplayStore::new(ReplaySettings {
        capacity: 20,
        environments: 1,
        observations: vec![ObservationSettings {
            name: "o".to_owned(),
            kind: ElementKind::U8,
            shape: vec![stack, 8],
            stack,
            stack_axis: StackAxis::First,
            codec: if choice & 2 != 0 { FrameCodec::Patch } else { FrameCodec::Lz4 },
        }],
        columns: vec![ColumnSettings { name: "a".to_owned(), kind: ElementKind::I64, shape: vec![1] }],
        priority_exponent: (choice & 4 != 0).then_some(0.5),
        max_bytes: None,
        compress_cold_rows: true,
        cache_bytes: 1 << 10,
        spill_folder: None,
    })
    .expect("valid settings");
    for step in 0..choice >> 3 {
        let observation = vec![step; stack * 8];
        let next = vec![step + 1; stack * 8];
        add(&mut store, &observation, &next, &[&[step; 8]]);
    }
    let mut bytes = Vec::new();
    store.write(&mut bytes, "").expect("writes to memory");
    bytes
}

fn add(store: &mut ReplayStore, observation: &[u8], next: &[u8], columns: &[&[u8]]) {
    let step = Step { observations: &[(observation, next)], columns, rewards: &[1.0], terminated: &[false], truncated: &[false] };
    store.add(step).expect("sizes fit");
}

/// The first sections of a whole file, then the payloads.
fn with_checksums(choice: u8, data: &[u8]) -> Vec<u8> {
    let whole = small_buffer(choice);
    let (keep, data) = data.split_first().unwrap_or((&0, data));
    let mut file = whole[..8].to_vec();
    let mut rest = &whole[8..];
    for _ in 0..*keep {
        let Some((length, after)) = rest.split_first_chunk::<8>() else { break };
        let length = u64::from_le_bytes(*length) as usize;
        file.extend_from_slice(&rest[..12 + length]);
        rest = &after[4 + length..];
    }
    for payload in data.split(|byte| *byte == 0xEE) {
        file.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        file.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        file.extend_from_slice(payload);
    }
    // The sections after those that the payloads stand for.
    for _ in 0..data.split(|byte| *byte == 0xEE).count() {
        let Some((length, after)) = rest.split_first_chunk::<8>() else { break };
        rest = &after[4 + u64::from_le_bytes(*length) as usize..];
    }
    file.extend_from_slice(rest);
    file
}

fn read(bytes: &[u8]) {
    let (mut store, _) = match ReplayStore::read_from(bytes, bytes.len() as u64, &LoadOptions::default()) {
        Ok(loaded) => loaded,
        Err(error) => return assert!(!error.contains('\n'), "one sentence: {error}"),
    };
    let settings = store.settings().clone();
    if settings.raw_row_bytes() > MOST_ROW_BYTES || settings.environments > 4 {
        return;
    }
    let rows: Vec<u64> = store.rows().take(64).collect();
    let sizes: Vec<usize> = settings.observations.iter().map(|one| one.bytes() * rows.len()).collect();
    let mut observations: Vec<(Vec<u8>, Vec<u8>)> = sizes.iter().map(|&size| (vec![0; size], vec![0; size])).collect();
    let column_bytes = |one: &ColumnSettings| one.kind.size() * one.shape.iter().product::<usize>();
    let mut columns: Vec<Vec<u8>> = settings.columns.iter().map(|one| vec![0; column_bytes(one) * rows.len()]).collect();
    let mut returns = vec![0.0; 4 * rows.len()];
    let (rewards, others) = returns.split_at_mut(rows.len());
    let (terminated, others) = others.split_at_mut(rows.len());
    let (truncated, discounts) = others.split_at_mut(rows.len());
    let mut targets = BatchTargets {
        observations: observations.iter_mut().map(|(now, next)| (now.as_mut_slice(), next.as_mut_slice())).collect(),
        columns: columns.iter_mut().map(Vec::as_mut_slice).collect(),
        rewards,
        terminated,
        truncated,
        discounts,
    };
    if let Err(error) = store.read(&rows, Returns { steps: 3, gamma: 0.9 }, &mut targets) {
        return assert!(!error.to_string().contains('\n'), "one sentence: {error}");
    }
    let _ = store.statistics();
    if settings.environments == 1 && settings.observations.len() == 1 && settings.columns.len() == 1 {
        let observation = vec![1; settings.observations[0].bytes()];
        for _ in 0..40 {
            add(&mut store, &observation, &observation, &[&vec![1; column_bytes(&settings.columns[0])]]);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    match data {
        [first, choice, rest @ ..] if first & 1 != 0 => read(&with_checksums(*choice, rest)),
        _ => read(data),
    }
});
