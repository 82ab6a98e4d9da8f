//! Everything that competes: our forecaster, then the rivals.

use crate::baselines::{Maker, baselines};

/// In the order of the tables. A forecaster of ours goes to the front of this list.
pub fn predictors() -> Vec<Maker> {
    baselines()
}
