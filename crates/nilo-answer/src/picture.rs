//! What a picture of a run is made of: its recording, thinned where it is large, and the figures of its summary.

use nilo_analysis::{ChartFigures, damage, written_ending};
use nilo_runfile::{RunFolder, RunfileError};
use nilo_sample::{Ending, Recording, RunMode, Subject, TableSpec};

/// A large run is thinned to this many pixels: four for each of the finest picture, so that nobody can see the difference.
const PIXELS: usize = 8192;

/// A run to draw over time.
#[derive(Debug)]
pub struct RunPicture {
    /// Its curves, and all events.
    pub recording: Recording,
    /// The same figures as in its summary.
    pub figures: ChartFigures,
    /// Whether files of the run are damaged.
    pub is_damaged: bool,
}

impl RunPicture {
    /// Of a run whose ending has been judged.
    pub fn of(mut recording: Recording, ending: Ending) -> RunPicture {
        let figures = ChartFigures::of(&recording, &ending);
        // Before the judged ending is written into it: a finished run's files are judged more strictly.
        let is_damaged = !damage(&recording).is_empty();
        recording.description.ending = Some(ending);
        RunPicture {
            recording,
            figures,
            is_damaged,
        }
    }

    /// Reads a run that has ended without having all its rows in memory.
    /// Nothing for one whose ending is still to be judged: that takes all its rows.
    pub fn of_ended(folder: &RunFolder) -> Result<Option<RunPicture>, RunfileError> {
        let description = folder.describe()?;
        if description.ending.is_none() {
            return Ok(None);
        }
        let is_machine = description.mode == RunMode::Machine;
        let is_drawn =
            |spec: &TableSpec| is_drawn(spec) || (is_machine && spec.subject == Subject::Host);
        let recording = folder.load_thinned(PIXELS, &is_drawn)?;
        let Some(ending) = written_ending(&recording) else {
            return Ok(None);
        };
        let mut picture = RunPicture::of(recording, ending);
        let recording = &picture.recording;
        // Of a run inside a job, the job's rows were all read.
        if recording.thinned_nanos > 0 && recording.description.parent.is_none() {
            let is_tree = |spec: &TableSpec| spec.subject == Subject::Tree;
            picture
                .figures
                .take_cpu_of(&folder.load_column("cpu_nanos", &is_tree)?);
        }
        Ok(Some(picture))
    }
}

fn is_drawn(spec: &TableSpec) -> bool {
    matches!(
        spec.subject,
        Subject::Tree
            | Subject::Process(_)
            | Subject::ProcessDetail(_)
            | Subject::Cgroup { .. }
            | Subject::Gpu { .. }
            | Subject::Metrics { .. }
    )
}

#[cfg(test)]
mod tests {
    use nilo_runfile::{RunWriter, WriterOptions};
    use nilo_sample::rows::{CgroupRow, TreeRow};
    use nilo_sample::{Limit, LimitSource, TypedRow, fixture};

    use super::*;

    const EVERY: u64 = 10_000_000;

    /// A run of a tree, whose highest sample is of three processes.
    fn recorded(root: &std::path::Path, rows: u64, has_ended: bool) -> RunFolder {
        let mut description = fixture::recording().description;
        let ending = format!(r#"{{"status":"exited","time_nanos":{}}}"#, rows * EVERY);
        let ending: Ending = serde_json::from_str(&ending).unwrap();
        description.ending = has_ended.then_some(ending);
        let folder = RunFolder::create(root, &description).unwrap();
        let mut writer =
            RunWriter::create(folder.path(), "recorder-1", WriterOptions::default()).unwrap();
        let tree = writer.define(&TableSpec::tree());
        for row in 0..rows {
            let is_highest = row == rows / 3;
            let bytes = if is_highest {
                5e9
            } else {
                1e9 + (row % 977) as f64
            };
            let values = TreeRow {
                memory_bytes: bytes,
                rss_bytes: bytes,
                // A core is busy for a second and a half.
                cpu_nanos: (row.clamp(1000, 1150) * EVERY) as f64,
                processes: if is_highest { 3.0 } else { 1.0 },
                pss_processes: 3.0,
                ..TreeRow::ABSENT
            };
            assert!(writer.append(tree, row * EVERY, None, &values.values()));
        }
        // Closing does not wait for long until every full segment lies in a block.
        let segments = || {
            let files = std::fs::read_dir(folder.path()).unwrap().flatten();
            let is_segment =
                |file: &std::fs::DirEntry| file.path().extension() == Some("nilo".as_ref());
            files.filter(is_segment).count()
        };
        while segments() > 1 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        writer.close();
        folder
    }

    #[test]
    fn a_large_run_is_thinned_and_has_the_figures_of_all_its_rows() {
        let root = tempfile::tempdir().unwrap();
        let folder = recorded(root.path(), 200_000, true);
        let picture = RunPicture::of_ended(&folder).unwrap().unwrap();
        let whole = folder.load().unwrap();
        let ending = whole.description.ending.clone().unwrap();
        let expected = ChartFigures::of(&whole, &ending);
        assert!(picture.recording.thinned_nanos > 0);
        assert!(picture.recording.tables[0].times.len() < 100_000);
        let figures = picture.figures;
        assert_eq!(figures.memory.peak_bytes, Some(5_000_000_000));
        assert_eq!(figures.memory.peak_secs, expected.memory.peak_secs);
        assert_eq!(figures.memory.peak_kind, expected.memory.peak_kind);
        assert_eq!(figures.cpu, expected.cpu);
        assert_eq!(figures.cpu.max_percent, Some(100.0));
        assert_eq!(figures.duration_nanos, expected.duration_nanos);
    }

    #[test]
    fn a_run_of_several_ranks_is_drawn_until_the_last_of_them_ended() {
        let root = tempfile::tempdir().unwrap();
        let folder = recorded(root.path(), 10, true);
        let mut description = folder.describe().unwrap();
        description.mode = RunMode::Python;
        description.boot_id = nilo_runfile::boot_id();
        description.started_monotonic_nanos = 0;
        description.ending.as_mut().unwrap().time_nanos = 3 * EVERY;
        folder.write_description(&description).unwrap();
        let picture = RunPicture::of_ended(&folder).unwrap().unwrap();
        assert_eq!(picture.figures.duration_nanos, 9 * EVERY);
        let ending = picture.recording.description.ending.unwrap();
        assert_eq!(ending.time_nanos, 9 * EVERY);
    }

    #[test]
    fn a_picture_has_what_was_charged_to_the_limit() {
        let root = tempfile::tempdir().unwrap();
        let folder = recorded(root.path(), 10, true);
        let mut description = folder.describe().unwrap();
        description.limit = Some(Limit {
            bytes: 8_000_000_000,
            source: LimitSource::Cgroup {
                path: "/job".to_owned(),
                version: 1,
            },
        });
        folder.write_description(&description).unwrap();
        let mut writer =
            RunWriter::create(folder.path(), "recorder-2", WriterOptions::default()).unwrap();
        let cgroup = writer.define(&TableSpec::cgroup("/job"));
        let row = CgroupRow {
            usage_bytes: 7e9,
            file_bytes: 5e9,
            shmem_bytes: 4e9,
            owned: 1.0,
            ..CgroupRow::ABSENT
        };
        assert!(writer.append(cgroup, EVERY, None, &row.values()));
        writer.close();
        let picture = RunPicture::of_ended(&folder).unwrap().unwrap();
        assert_eq!(picture.figures.memory.limit_used_bytes, Some(6_000_000_000));
        let charged = nilo_analysis::charged::charged_to_limit(&picture.recording).unwrap();
        let charged: Vec<f64> = charged.into_iter().map(|(_, bytes)| bytes).collect();
        assert_eq!(charged, [6e9]);
    }

    #[test]
    fn a_run_that_has_not_ended_is_left_to_be_judged() {
        let root = tempfile::tempdir().unwrap();
        let folder = recorded(root.path(), 10, false);
        assert!(RunPicture::of_ended(&folder).unwrap().is_none());
    }
}
