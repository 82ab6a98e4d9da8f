//! The data loader.

use nilo_sample::units::format_bytes;

use super::figures::{count, host_memory, percent, share, step_time};
use super::{AdviceRule, AdviceSubject, Found, found};
use crate::facts::Facts;
use crate::recommendation::AdviceConfidence::{High, Medium};

/// Copied pages are worth a word from this size on: that of the finding of a recording.
const LEAST_COPIED_BYTES: f64 = 50.0 * 1024.0 * 1024.0;
/// Workers that read a dataset of so many objects copy it bit by bit; in a look at a few batches that shows from this size on.
const MANY_OBJECTS: u64 = 50_000;
const LEAST_GROWN_BYTES: f64 = 4.0 * 1024.0 * 1024.0;
/// Batches in preparation may take this share of the limit.
const PREFETCH_SHARE: f64 = 0.1;
/// Batches that a worker prepares in advance by default.
const USUAL_PREFETCH: u64 = 2;
/// Pinned memory may exceed what was asked for by this factor.
const PINNED_OVER: f64 = 1.3;
/// `/dev/shm` is nearly full from this share on.
const NEARLY_FULL: f64 = 0.8;
/// Waiting for data is worth a word from this share of a step on.
const WAITING: f64 = 0.2;
/// Lengths differ much from this share of their mean on ...
const LENGTHS_VARY: f64 = 0.5;
/// ... and padding is worth a word from this share of the tokens on.
const PADDING: f64 = 0.2;
/// Copies of a dataset in spawned workers are worth a word from this size on.
const LEAST_SPAWNED_BYTES: f64 = 256.0 * 1024.0 * 1024.0;

pub(super) const RULES: &[AdviceRule] = &[
    AdviceRule {
        name: "share-dataset",
        subject: AdviceSubject::Loader,
        condition: "forked workers copy pages of what they share with their parent",
        needs: &["loader.copied_bytes|loader.worker_private_growth_bytes"],
        source: "pytorch/pytorch#13246; one serialized buffer instead of a list of dicts took 66 % less in our measurement",
        look: share_dataset,
    },
    AdviceRule {
        name: "share-spawned-dataset",
        subject: AdviceSubject::Loader,
        condition: "spawned workers have a copy of the dataset each",
        needs: &[
            "loader.start_method",
            "loader.workers",
            "loader.serialized_bytes",
        ],
        source: "spawn pickles the dataset for every worker",
        look: share_spawned_dataset,
    },
    AdviceRule {
        name: "prefetch-less",
        subject: AdviceSubject::Loader,
        condition: "batches in preparation take more than 10 % of the memory limit",
        needs: &[
            "loader.workers",
            "loader.prefetch_factor",
            "loader.batch_bytes",
            "host.limit_bytes",
        ],
        source: "pytorch/pytorch#97432: workers times prefetch_factor times batch",
        look: prefetch_less,
    },
    AdviceRule {
        name: "pin-exact-sizes",
        subject: AdviceSubject::Loader,
        condition: "pinned memory exceeds the requested size by more than 30 %",
        needs: &[
            "loader.pinned_requested_bytes",
            "loader.pinned_allocated_bytes",
        ],
        source: "pytorch/pytorch#95823: pinned memory is rounded up to a power of two",
        look: pin_exact_sizes,
    },
    AdviceRule {
        name: "enlarge-shared-memory",
        subject: AdviceSubject::Loader,
        condition: "/dev/shm is more than 80 % full",
        needs: &["loader.shm_size_bytes", "loader.shm_peak_bytes"],
        source: "PyTorch's documentation of sharing strategies; a full /dev/shm ends in a bus error",
        look: enlarge_shared_memory,
    },
    AdviceRule {
        name: "load-data-faster",
        subject: AdviceSubject::Loader,
        condition: "a step waits for data for more than 20 % of its time",
        needs: &["loader.wait_ratio"],
        source: "from w to n workers, waiting falls to w/n at best; without workers, loading does not overlap with the step",
        look: load_data_faster,
    },
    AdviceRule {
        name: "batch-by-tokens",
        subject: AdviceSubject::Loader,
        condition: "lengths vary by more than half of their mean, and more than 20 % of the tokens are padding",
        needs: &["loader.length_variation", "loader.padding_ratio"],
        source: "lhotse-speech/lhotse#640; meta-pytorch/data#788",
        look: batch_by_tokens,
    },
];

fn share_dataset(facts: &Facts) -> Option<Found> {
    let loader = &facts.loader;
    let method = loader.start_method.as_deref();
    let objects = loader.dataset_objects;
    let (bytes, least, evidence, confidence) = match loader.copied_bytes {
        Some(copied) => {
            let what = format!(
                "forked workers held {} of copies of what they shared with their parent at one time",
                format_bytes(copied)
            );
            (copied, LEAST_COPIED_BYTES, what, High)
        }
        None => {
            let grown = loader.worker_private_growth_bytes?;
            let what = format!(
                "private memory of the workers grew by {}",
                format_bytes(grown)
            );
            let least = match objects >= Some(MANY_OBJECTS) {
                true => LEAST_GROWN_BYTES,
                false => LEAST_COPIED_BYTES,
            };
            (grown, least, what, Medium)
        }
    };
    if bytes < least || method.is_some_and(|method| method != "fork") {
        return None;
    }
    Some(
        found(
            "Keep the dataset in a SharedList or in arrays instead of Python lists: touching an object's reference count copies its page",
            "dataset.items = nilometer.optimize.SharedList(dataset.items), or numpy arrays instead of lists",
        )
        .because(evidence)
        .because_if(objects.map(|objects| format!("the dataset holds {objects} Python objects")))
        .because_if(loader.serialized_bytes.map(|bytes| {
            format!("serialized it takes {}, once for all workers", format_bytes(bytes))
        }))
        .saves(host_memory(bytes, facts.host.peak_bytes))
        .with(confidence),
    )
}

fn share_spawned_dataset(facts: &Facts) -> Option<Found> {
    let loader = &facts.loader;
    let (workers, bytes) = (loader.workers? as f64, loader.serialized_bytes?);
    let copies = workers * bytes;
    if loader.start_method.as_deref()? != "spawn" || copies < LEAST_SPAWNED_BYTES {
        return None;
    }
    Some(
        found(
            "Share the dataset between spawned workers instead of pickling it to each",
            "dataset.items = nilometer.optimize.SharedList(dataset.items)",
        )
        .because(format!(
            "{} hold a copy of {} each",
            count(workers as u64, "spawned worker"),
            format_bytes(bytes)
        ))
        .saves(host_memory(copies, facts.host.peak_bytes))
        .with(Medium),
    )
}

fn prefetch_less(facts: &Facts) -> Option<Found> {
    let loader = &facts.loader;
    let (workers, prefetch) = (loader.workers?, loader.prefetch_factor?);
    let (batch, limit) = (loader.batch_bytes?, facts.host.limit_bytes?);
    let waiting = workers as f64 * prefetch as f64 * batch;
    let of_limit = share(waiting, limit)?;
    if of_limit <= PREFETCH_SHARE {
        return None;
    }
    let (change, kept) = match prefetch > USUAL_PREFETCH {
        true => {
            let kept = USUAL_PREFETCH as f64 / prefetch as f64;
            (
                format!("DataLoader(prefetch_factor={USUAL_PREFETCH})"),
                kept,
            )
        }
        false if workers > 1 => {
            let fewer = workers / 2;
            (
                format!("DataLoader(num_workers={fewer})"),
                fewer as f64 / workers as f64,
            )
        }
        false => return None,
    };
    Some(
        found("Prepare fewer batches in advance", change)
            .because(format!(
                "{} prepare {} of {} each: {}, {} of the limit of {}",
                count(workers, "worker"),
                match prefetch {
                    1 => "1 batch".to_owned(),
                    _ => format!("{prefetch} batches"),
                },
                format_bytes(batch),
                format_bytes(waiting),
                percent(of_limit),
                format_bytes(limit)
            ))
            .saves(host_memory(waiting * (1.0 - kept), facts.host.peak_bytes)),
    )
}

fn pin_exact_sizes(facts: &Facts) -> Option<Found> {
    let loader = &facts.loader;
    let (asked, taken) = (
        loader.pinned_requested_bytes?,
        loader.pinned_allocated_bytes?,
    );
    let over = share(taken, asked)?;
    (over > PINNED_OVER).then(|| {
        found(
            "Do not round pinned memory up to a power of two",
            "PYTORCH_ALLOC_CONF=pinned_max_round_threshold_mb:1 where PyTorch knows it; otherwise batches whose size is just below a power of two",
        )
        .because(format!(
            "{} were requested and {} allocated: {over:.2} times as much",
            format_bytes(asked),
            format_bytes(taken)
        ))
        .saves(host_memory(taken - asked, facts.host.peak_bytes))
        .with(Medium)
    })
}

fn enlarge_shared_memory(facts: &Facts) -> Option<Found> {
    let (size, most) = (facts.loader.shm_size_bytes?, facts.loader.shm_peak_bytes?);
    let full = share(most, size)?;
    (full >= NEARLY_FULL).then(|| {
        found(
            "Use fewer workers or a smaller prefetch_factor, or give the container a larger /dev/shm (--shm-size)",
            "docker run --shm-size=8g, or torch.multiprocessing.set_sharing_strategy(\"file_system\")",
        )
        .because(format!(
            "/dev/shm held up to {} of {}",
            format_bytes(most),
            format_bytes(size)
        ))
    })
}

fn load_data_faster(facts: &Facts) -> Option<Found> {
    let loader = &facts.loader;
    let waits = loader.wait_ratio?.min(1.0);
    if waits <= WAITING {
        return None;
    }
    let more = more_workers(facts);
    let has_gpu = facts.torch.device_bytes.is_some() || facts.model.on_gpu == Some(true);
    let is_pinned = loader.pin_memory == Some(true);
    let settings: Vec<String> = [
        match (loader.workers, more) {
            (None, _) => Some("num_workers=os.cpu_count()".to_owned()),
            (Some(_), more) => more.map(|more| format!("num_workers={more}")),
        },
        // Workers that there are none of live no longer for it.
        (loader.persistent_workers != Some(true) && more.or(loader.workers) != Some(0))
            .then(|| "persistent_workers=True".to_owned()),
        (has_gpu && !is_pinned).then(|| "pin_memory=True".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect();
    let change = match settings.is_empty() {
        true => "preprocess the data once, or make a sample cheaper to load".to_owned(),
        false => format!(
            "DataLoader({}), or preprocess the data once",
            settings.join(", ")
        ),
    };
    let saved = loader
        .workers
        .zip(more)
        .map(|(workers, more)| saved_by_workers(waits, workers as f64, more as f64));
    Some(
        found("Load data faster: the step waits for it", change)
            .because(format!("{} of the step waits for data", percent(waits)))
            .because_if(loader.workers.map(|workers| match workers {
                0 => "the training process loads it itself".to_owned(),
                1 => "1 worker loads it".to_owned(),
                _ => format!("{workers} workers load it"),
            }))
            .because_if(
                loader
                    .cpus
                    .map(|cpus| format!("the program may use {}", count(cpus, "CPU"))),
            )
            .saves(step_time(saved))
            .with(Medium),
    )
}

/// Twice as many, as far as there are CPUs for them; nothing where there are none left.
fn more_workers(facts: &Facts) -> Option<u64> {
    let workers = facts.loader.workers?;
    let twice = workers.saturating_mul(2).max(2);
    let more = twice.min(facts.loader.cpus.unwrap_or(u64::MAX));
    (more > workers).then_some(more)
}

/// Share of the step that more workers save at best. Without workers, batches are loaded between steps: with them, loading takes its part of the time beside the step.
fn saved_by_workers(waits: f64, workers: f64, more: f64) -> f64 {
    match workers > 0.0 {
        true => waits * (1.0 - workers / more),
        false => 1.0 - f64::max(waits / more, 1.0 - waits),
    }
}

fn batch_by_tokens(facts: &Facts) -> Option<Found> {
    let (variation, padding) = (facts.loader.length_variation?, facts.loader.padding_ratio?);
    let padding = padding.min(1.0);
    (variation > LENGTHS_VARY && padding > PADDING).then(|| {
        found(
            "Batch samples of similar length within a budget of tokens",
            "DataLoader(batch_sampler=nilometer.optimize.TokenBudgetBatches(lengths, max_tokens=...))",
        )
        .because(format!(
            "{} of the tokens are padding; lengths vary by {} of their mean",
            percent(padding),
            percent(variation)
        ))
        .saves(step_time(Some(padding)))
        .with(Medium)
    })
}
