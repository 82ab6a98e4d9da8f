//! What a picture of a run is made of: its recording, thinned where it is large, and the figures of its summary.

use nilo_analysis::ChartFigures;
use nilo_runfile::{RunFolder, RunfileError};
use nilo_sample::{Recording, Subject, TableSpec};

/// A large run is thinned to this many pixels: four for each of the finest picture, so that nobody can see the difference.
const PIXELS: usize = 8192;

/// A run to draw over time.
#[derive(Debug)]
pub struct RunPicture {
    /// Its curves, and all events.
    pub recording: Recording,
    /// The same figures as in its summary.
    pub figures: ChartFigures,
}

impl RunPicture {
    /// Reads a run that has ended without having all its rows in memory.
    /// Nothing for one whose ending is still to be judged: that takes all its rows.
    pub fn of_ended(folder: &RunFolder) -> Result<Option<RunPicture>, RunfileError> {
        let Some(ending) = folder.describe()?.ending else {
            return Ok(None);
        };
        let recording = folder.load_thinned(PIXELS, &is_drawn)?;
        let mut figures = ChartFigures::of(&recording, &ending);
        // Of a run inside a job, the job's rows were all read.
        if recording.thinned_nanos > 0 && recording.description.parent.is_none() {
            let is_tree = |spec: &TableSpec| spec.subject == Subject::Tree;
            figures.take_cpu_of(&folder.load_column("cpu_nanos", &is_tree)?);
        }
        Ok(Some(RunPicture { recording, figures }))
    }
}

fn is_drawn(spec: &TableSpec) -> bool {
    matches!(
        spec.subject,
        Subject::Tree
            | Subject::Process(_)
            | Subject::ProcessDetail(_)
            | Subject::Gpu { .. }
            | Subject::Metrics { .. }
    )
}
