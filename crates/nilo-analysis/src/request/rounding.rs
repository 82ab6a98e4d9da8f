//! Sizes and times as one asks for them: rounded up to numbers that a person would write.

use nilo_sample::units::{GIB, MIB, NANOS_PER_SEC};

/// Up to 64 MiB below a GiB, to 1 GiB below 64 GiB, to 4 GiB above.
pub(crate) fn round_up_bytes(bytes: f64) -> u64 {
    let bytes = bytes.clamp(0.0, (1u64 << 60) as f64).ceil() as u64;
    let step = match bytes {
        bytes if bytes <= GIB => 64 * MIB,
        bytes if bytes <= 64 * GIB => GIB,
        _ => 4 * GIB,
    };
    bytes.max(1).next_multiple_of(step)
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
