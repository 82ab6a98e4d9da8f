//! What was charged to the cgroup that sets the limit, as a line of its own where it is not what the processes hold:
//! files in tmpfs count against the limit and are in no process.

use nilo_analysis::charged::charged_to_limit;
use nilo_analysis::owned_cgroup::is_owned;
use nilo_analysis::summary::NOTABLE_SHARE;
use nilo_sample::units::NANOS_PER_SEC;
use nilo_sample::{Limit, LimitSource, Recording, RunStatus, Subject};

use crate::curve::{CurvePoint, height_at, is_plausible};
use crate::levels::limit_on_scale;

/// Its name in the legend, where the figure is the highest reading: the kernel may have seen more in between.
pub(crate) const NAME: &str = "charged to the cgroup, sampled";
/// The same where there is less room.
pub(crate) const SHORTER_NAMES: [&str; 3] = ["charged to the cgroup", "cgroup charge", "charged"];
/// What the name means.
pub(crate) const FOOTNOTE: &str =
    "charged to the cgroup: what counts against its limit, with files in tmpfs, without page cache";
/// Told from the limit, which has the same colour and longer dashes.
pub(crate) const DASH: &str = "2 2";

/// A level is read at least this often, so a change is no older.
const READING_NANOS: u64 = NANOS_PER_SEC;

/// The points, where they differ notably from the tree's curve.
///
/// Of a cgroup that others are in too only where the limit is on the scale anyway, or ran out: the job's own curve is what the picture is about.
pub(crate) fn charged_points(
    recording: &Recording,
    limit: Option<&Limit>,
    tree: &[CurvePoint],
    peak_bytes: f64,
) -> Vec<CurvePoint> {
    let Some(limit) = limit else {
        return Vec::new();
    };
    let levels = charged_to_limit(recording).unwrap_or_default();
    let levels = levels.into_iter().filter(|(_, bytes)| is_plausible(*bytes));
    let points = levels.map(|(time_nanos, bytes)| CurvePoint { time_nanos, bytes });
    let points: Vec<CurvePoint> = points.collect();
    let differs = |point: &CurvePoint| {
        let tree = height_at(tree, point.time_nanos);
        tree.is_some_and(|tree| (point.bytes - tree).abs() >= NOTABLE_SHARE * limit.bytes as f64)
    };
    let is_job_judged = is_own(recording, limit) || limit_on_scale(limit, peak_bytes);
    if !(is_job_judged || has_run_out(recording)) || !points.iter().any(differs) {
        return Vec::new();
    }
    held_until_changed(&points)
}

fn is_own(recording: &Recording, limit: &Limit) -> bool {
    let LimitSource::Cgroup { path, .. } = &limit.source else {
        return false;
    };
    let cgroup = recording.table(&Subject::Cgroup { path: path.clone() });
    cgroup.is_some_and(is_owned)
}

fn has_run_out(recording: &Recording) -> bool {
    let ending = recording.description.ending.as_ref();
    ending.is_some_and(|ending| ending.status == RunStatus::OomKilled)
}

/// Rows are written when something changed: until shortly before the next one, a level stands.
fn held_until_changed(points: &[CurvePoint]) -> Vec<CurvePoint> {
    let mut held = Vec::with_capacity(points.len());
    for (index, point) in points.iter().enumerate() {
        held.push(*point);
        let next = points.get(index + 1).map_or(0, |next| next.time_nanos);
        if next.saturating_sub(point.time_nanos) > READING_NANOS {
            held.push(CurvePoint {
                time_nanos: next - READING_NANOS,
                ..*point
            });
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::rows::CgroupRow;
    use nilo_sample::{TableSpec, fixture};

    const LEVELS: [(u64, f64); 3] = [(0, 12.0), (9, 12.5), (10, 293.0)];

    /// A tree that holds 12.5 of a cgroup that fills up.
    fn points(owned: f64, limit_bytes: u64, levels: &[(u64, f64)]) -> Vec<CurvePoint> {
        let limit = Limit {
            bytes: limit_bytes,
            source: LimitSource::Cgroup {
                path: "/job".to_owned(),
                version: 1,
            },
        };
        let rows: Vec<(u64, CgroupRow)> = levels
            .iter()
            .map(|(secs, bytes)| {
                let row = CgroupRow {
                    usage_bytes: bytes + 5.0,
                    anon_bytes: 10.0,
                    file_bytes: bytes - 10.0 + 5.0,
                    shmem_bytes: bytes - 10.0,
                    owned,
                    ..CgroupRow::ABSENT
                };
                (secs * NANOS_PER_SEC, row)
            })
            .collect();
        let mut recording = fixture::recording();
        recording.description.limit = Some(limit.clone());
        recording.tables = vec![fixture::table_of(TableSpec::cgroup("/job"), &rows)];
        let tree = [0, 20].map(|secs| CurvePoint {
            time_nanos: secs * NANOS_PER_SEC,
            bytes: 12.5,
        });
        charged_points(&recording, Some(&limit), &tree, 12.5)
    }

    #[test]
    fn files_in_memory_are_a_line_that_stands_until_they_are_written() {
        let drawn = points(1.0, 300, &LEVELS);
        let places: Vec<(u64, f64)> = drawn
            .iter()
            .map(|point| (point.time_nanos / NANOS_PER_SEC, point.bytes))
            .collect();
        assert_eq!(places, [(0, 12.0), (8, 12.0), (9, 12.5), (10, 293.0)]);
    }

    #[test]
    fn what_differs_little_and_what_neighbours_hold_is_not_drawn() {
        assert_eq!(points(1.0, 300, &LEVELS[..2]), []);
        assert_eq!(points(0.0, 300, &LEVELS), []);
        // The limit is on the scale of the job's own curve.
        assert!(!points(0.0, 30, &[(0, 12.0), (9, 25.0)]).is_empty());
    }
}
