//! Sizes and times as one asks for them: rounded up to numbers that a person would write.

use nilo_sample::units::{GIB, MIB, NANOS_PER_SEC, format_bytes};

/// Up to 64 MiB below a GiB, to 1 GiB below 64 GiB, to 4 GiB above.
pub(crate) fn round_up_bytes(bytes: f64) -> u64 {
    let bytes = bytes.clamp(0.0, (1u64 << 60) as f64).ceil() as u64;
    bytes.max(1).next_multiple_of(step_bytes(bytes))
}

/// What a size is rounded up to a multiple of.
fn step_bytes(bytes: u64) -> u64 {
    match bytes {
        bytes if bytes <= GIB => 64 * MIB,
        bytes if bytes <= 64 * GIB => GIB,
        _ => 4 * GIB,
    }
}

/// `that is 385.86 MiB, rounded up to a multiple of 64 MiB`; nothing where nothing was rounded.
pub(crate) fn rounding_in_words(before_bytes: u64, bytes: u64) -> Option<String> {
    let step = step_bytes(before_bytes);
    let step = match step {
        step if step < GIB => format!("{} MiB", step / MIB),
        step => format!("{} GiB", step / GIB),
    };
    (bytes > before_bytes).then(|| {
        format!(
            "that is {}, rounded up to a multiple of {step}",
            format_bytes(before_bytes as f64)
        )
    })
}

/// A share of the whole for each of several; together they are at least the whole. To whole MiB, which Slurm counts in.
pub(crate) fn share_bytes(whole: u64, parts: u32) -> u64 {
    whole
        .div_ceil(u64::from(parts.max(1)))
        .next_multiple_of(MIB)
}

/// Up to 5 minutes below three hours, to 15 minutes above.
pub(crate) fn round_up_nanos(nanos: f64) -> u64 {
    const MINUTE: u64 = 60 * NANOS_PER_SEC;
    let nanos = nanos.clamp(1.0, 1e18).ceil() as u64;
    let step = match nanos {
        nanos if nanos <= 180 * MINUTE => 5 * MINUTE,
        _ => 15 * MINUTE,
    };
    nanos.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_roundings() {
        let gib = GIB as f64;
        for (bytes, expected) in [
            (1.0, 64 * MIB),
            (0.5 * gib + 1.0, 576 * MIB),
            (0.99 * gib, GIB),
            (1.2 * gib, 2 * GIB),
            (63.5 * gib, 64 * GIB),
            (64.5 * gib, 68 * GIB),
        ] {
            assert_eq!(round_up_bytes(bytes), expected, "{bytes}");
        }
        let minute = 60.0 * NANOS_PER_SEC as f64;
        assert_eq!(round_up_nanos(1.0), 300 * NANOS_PER_SEC);
        assert_eq!(round_up_nanos(62.0 * minute), 65 * 60 * NANOS_PER_SEC);
        assert_eq!(round_up_nanos(181.0 * minute), 195 * 60 * NANOS_PER_SEC);
        assert_eq!(share_bytes(10 * MIB, 3), 4 * MIB);
    }

    #[test]
    fn rounding_is_told() {
        let before = (1.25 * 308.69 * MIB as f64) as u64;
        assert_eq!(round_up_bytes(before as f64), 448 * MIB);
        assert_eq!(
            rounding_in_words(before, 448 * MIB).as_deref(),
            Some("that is 385.86 MiB, rounded up to a multiple of 64 MiB")
        );
        assert_eq!(rounding_in_words(GIB, GIB), None);
    }

    proptest! {
        #[test]
        fn shares_add_up_to_the_whole(whole in 1u64..1 << 50, parts in 1u32..512) {
            prop_assert!(share_bytes(whole, parts) * u64::from(parts) >= whole);
        }

        #[test]
        fn nothing_is_rounded_down(bytes in 1.0..1e15f64) {
            prop_assert!(round_up_bytes(bytes) as f64 >= bytes);
        }
    }
}
