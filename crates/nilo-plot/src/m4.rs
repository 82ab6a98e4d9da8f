//! As many points as there are pixels: in each column the first, the lowest, the highest and the last (M4).
//!
//! This draws the same pixels as all points would; no spike is lost.

/// Thins points out. `column` is where a point lies across, `height` how high it is.
pub(crate) fn m4<P: Copy>(
    points: &[P],
    column: impl Fn(&P) -> f64,
    height: impl Fn(&P) -> f64,
) -> Vec<P> {
    let mut kept = Vec::new();
    for bucket in points.chunk_by(|a, b| column(a).floor() == column(b).floor()) {
        let last = bucket.len() - 1;
        let by_height = |a: &usize, b: &usize| height(&bucket[*a]).total_cmp(&height(&bucket[*b]));
        let lowest = (0..=last).min_by(by_height).unwrap_or(0);
        let highest = (0..=last).max_by(by_height).unwrap_or(0);
        let mut indices = [0, lowest.min(highest), lowest.max(highest), last];
        indices.sort_unstable();
        let mut previous = None;
        for index in indices {
            if previous.replace(index) != Some(index) {
                kept.push(bucket[index]);
            }
        }
    }
    kept
}
