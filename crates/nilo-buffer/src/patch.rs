//! A frame as the places where it differs from a key frame.
//!
//! Frames of a game share their background, so a patch is a fraction of what a general codec needs, and applying it costs a copy of the key and a few short ones.
//! A patch is a list of runs: how many bytes to leave as they are, how many to replace, and those bytes; both counts are one byte.

/// The longest count that fits into its byte.
const MOST: usize = 255;
/// Equal bytes up to this many between two differences are stored with them: a new run takes two bytes and a branch.
const JOINED_GAP: usize = 4;
/// Bytes of a `u128`.
const WORD: usize = 16;

/// Why a patch cannot be applied.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadPatch;

/// Appends the patch that makes `frame` of `key`, unless it takes more than `most_bytes`; then nothing is appended.
pub(crate) fn encode(key: &[u8], frame: &[u8], most_bytes: usize, out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    let mut done = 0;
    let mut at = next_difference(key, frame, 0);
    while at < frame.len() {
        let mut skip = at - done;
        while skip > MOST {
            out.extend_from_slice(&[MOST as u8, 0]);
            skip -= MOST;
        }
        let end = end_of_run(key, frame, at);
        out.extend_from_slice(&[skip as u8, (end - at) as u8]);
        out.extend_from_slice(&frame[at..end]);
        if out.len() - begin > most_bytes {
            out.truncate(begin);
            return false;
        }
        done = end;
        at = next_difference(key, frame, end);
    }
    true
}

/// Applies a patch to `frame`, which holds the key.
pub(crate) fn apply(patch: &[u8], frame: &mut [u8]) -> Result<(), BadPatch> {
    let mut patch = patch;
    let mut at = 0;
    while let [skip, count, rest @ ..] = patch {
        at += usize::from(*skip);
        let count = usize::from(*count);
        let Some(target) = frame.get_mut(at..).filter(|target| count <= target.len()) else {
            return Err(BadPatch);
        };
        let Some(after) = rest.get(count..) else {
            return Err(BadPatch);
        };
        copy_run(rest, count, target);
        at += count;
        patch = after;
    }
    if patch.is_empty() {
        Ok(())
    } else {
        Err(BadPatch)
    }
}

/// Copies the first `count` bytes. Most runs are short: those are merged into sixteen bytes at once, which takes no branch on their length.
#[inline]
fn copy_run(bytes: &[u8], count: usize, target: &mut [u8]) {
    if count <= WORD
        && let (Some(new), Some(old)) = (
            bytes.first_chunk::<WORD>(),
            target.first_chunk_mut::<WORD>(),
        )
    {
        let kept = u128::MAX.checked_shl(8 * count as u32).unwrap_or(0);
        let merged = u128::from_le_bytes(*old) & kept | u128::from_le_bytes(*new) & !kept;
        *old = merged.to_le_bytes();
    } else {
        target[..count].copy_from_slice(&bytes[..count]);
    }
}

/// The first place from `from` on where the two differ; their length where they do not.
fn next_difference(key: &[u8], frame: &[u8], from: usize) -> usize {
    let mut at = from;
    for (left, right) in key[from..]
        .chunks_exact(8)
        .zip(frame[from..].chunks_exact(8))
    {
        if left != right {
            break;
        }
        at += 8;
    }
    while at < frame.len() && key[at] == frame[at] {
        at += 1;
    }
    at
}

/// Where the run of differences that begins at `at` ends, short gaps included.
fn end_of_run(key: &[u8], frame: &[u8], at: usize) -> usize {
    let last = frame.len().min(at + MOST);
    let mut end = at + 1;
    let mut look = end;
    while look < last && look - end <= JOINED_GAP {
        if key[look] != frame[look] {
            end = look + 1;
        }
        look += 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_equal_frame_takes_no_bytes() {
        let mut out = Vec::new();
        assert!(encode(&[7; 1000], &[7; 1000], 0, &mut out));
        assert!(out.is_empty());
    }

    #[test]
    fn a_patch_above_the_bound_is_not_kept() {
        let mut out = vec![1, 2];
        assert!(!encode(&[0; 64], &[9; 64], 10, &mut out));
        assert_eq!(out, [1, 2]);
    }

    #[test]
    fn damaged_patches_are_refused() {
        let mut frame = [0; 8];
        for patch in [
            &[0][..],
            &[0, 3, 1],
            &[9, 1, 1],
            &[255, 255],
            &[4, 5, 1, 1, 1, 1, 1],
        ] {
            assert_eq!(apply(patch, &mut frame), Err(BadPatch), "{patch:?}");
        }
    }

    proptest! {
        #[test]
        fn a_patched_key_is_the_frame(
            key in prop::collection::vec(0_u8..3, 0..900),
            changes in prop::collection::vec((0_usize..900, any::<u8>()), 0..60),
        ) {
            let mut frame = key.clone();
            for (place, value) in changes {
                if let Some(byte) = frame.get_mut(place) {
                    *byte = value;
                }
            }
            let mut patch = Vec::new();
            prop_assert!(encode(&key, &frame, usize::MAX, &mut patch));
            let mut patched = key;
            prop_assert_eq!(apply(&patch, &mut patched), Ok(()));
            prop_assert_eq!(patched, frame);
        }

        #[test]
        fn any_bytes_as_a_patch_are_applied_or_refused(patch in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = apply(&patch, &mut [0; 300]);
        }
    }
}
