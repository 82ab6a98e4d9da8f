//! The clocks of a run: monotonic time within one boot, wall time between boots, and the boot's identity.
//!
//! The C library's clock, not rustix's: that one looks for the kernel's time page by itself and crashes where there is none (valgrind).

/// `CLOCK_MONOTONIC` in nanoseconds: the time of every row.
#[inline]
pub fn monotonic_nanos() -> u64 {
    nanos_of(libc::CLOCK_MONOTONIC)
}

/// The wall clock, nanoseconds since 1970.
pub fn unix_nanos() -> u64 {
    nanos_of(libc::CLOCK_REALTIME)
}

#[inline]
fn nanos_of(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock exists on every system and the structure is ours.
    unsafe { libc::clock_gettime(clock, &mut time) };
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    secs.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// Identity of this boot, as the kernel writes it; empty where it has none.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// The sixteen bytes of a boot id, dashes ignored; `None` when it is not one.
pub(crate) fn boot_id_bytes(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| *c != '-')
        .map(|c| c.to_digit(16))
        .collect::<Option<_>>()?;
    if digits.len() != 32 {
        return None;
    }
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (pair[0] * 16 + pair[1]) as u8;
    }
    (bytes != [0; 16]).then_some(bytes)
}

/// Start time of this process in clock ticks since boot; 0 where `/proc` does not tell.
///
/// Read here and not by `nilo-source`, which this crate does not use: a run file says by itself who wrote it and in which boot.
pub(crate) fn process_start_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may contain anything, so fields are counted from the last `)`.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name
        .split_ascii_whitespace()
        .nth(19)
        .and_then(|field| field.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_ids_become_sixteen_bytes() {
        let bytes = boot_id_bytes("00112233-4455-6677-8899-aabbccddeeff").unwrap();
        assert_eq!(bytes[1], 0x11);
        assert_eq!(bytes[15], 0xff);
        for bad in ["", "xyz", "0011", "00000000-0000-0000-0000-000000000000"] {
            assert_eq!(boot_id_bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn clocks_move_forward() {
        let (early, late) = (monotonic_nanos(), monotonic_nanos());
        assert!(early > 0 && late >= early);
        assert!(unix_nanos() > 1_700_000_000_000_000_000);
    }
}
