//! Rewards of groups: the native half of `GRPOMetricsTracker`.
//!
//! Input that does not fit is a `ValueError` with the argument's name in it; the Python half decides whether that stops the program.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nilo_rewards::{
    AdvantageScale, GroupBatch, RewardHistory as History, RewardSettings, ShapeError, named_metrics,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::errors::value_error;
use crate::flatten::as_dict;
use crate::nested::read_groups;
use crate::text::text_of;

/// Groups of rewards, kept and described.
#[pyclass(name = "RewardHistory", frozen, module = "nilometer._native")]
pub(crate) struct PyRewardHistory {
    history: Mutex<History>,
}

#[pymethods]
impl PyRewardHistory {
    #[new]
    #[pyo3(signature = (*, reward_max=None, reward_min=None, success_threshold=None, zero_std=None, low_std=None, advantage_epsilon=None, advantage_scale=None, keep_rewards=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of a Python call")]
    fn new(
        reward_max: Option<f64>,
        reward_min: Option<f64>,
        success_threshold: Option<f64>,
        zero_std: Option<f64>,
        low_std: Option<f64>,
        advantage_epsilon: Option<f64>,
        advantage_scale: Option<&str>,
        keep_rewards: Option<usize>,
    ) -> PyResult<PyRewardHistory> {
        let usual = RewardSettings::default();
        let settings = RewardSettings {
            reward_max: finite("reward_max", reward_max)?,
            reward_min: finite("reward_min", reward_min)?,
            success_threshold: finite("success_threshold", success_threshold)?,
            zero_std: not_negative("zero_std", zero_std)?.unwrap_or(usual.zero_std),
            low_std: not_negative("low_std", low_std)?.unwrap_or(usual.low_std),
            advantage_epsilon: not_negative("advantage_epsilon", advantage_epsilon)?
                .unwrap_or(usual.advantage_epsilon),
            advantage_scale: scale(advantage_scale)?,
            keep_rewards: keep_rewards.unwrap_or(usual.keep_rewards),
        };
        if let (Some(least), Some(most)) = (settings.reward_min, settings.reward_max)
            && least >= most
        {
            return Err(value_error(format!(
                "reward_min is {least}, which is not below reward_max, {most}"
            )));
        }
        if settings.keep_rewards == 0 {
            return Err(value_error("keep_rewards is 0; it must be positive"));
        }
        Ok(PyRewardHistory {
            history: Mutex::new(History::new(settings)),
        })
    }

    /// Takes in groups and gives their own statistics as names and numbers.
    #[pyo3(signature = (rewards, components=None, lengths=None, prompt_ids=None, advantages=None, truncated=None, group_size=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of a Python call")]
    fn push<'py>(
        &self,
        py: Python<'py>,
        rewards: &Bound<'py, PyAny>,
        components: Option<&Bound<'py, PyAny>>,
        lengths: Option<&Bound<'py, PyAny>>,
        prompt_ids: Option<&Bound<'py, PyAny>>,
        advantages: Option<&Bound<'py, PyAny>>,
        truncated: Option<&Bound<'py, PyAny>>,
        group_size: Option<usize>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let read = |what: &str, values: &Bound<'py, PyAny>| {
            read_groups(what, values, group_size).map_err(value_error)
        };
        let mut batch = GroupBatch::new(&read("rewards", rewards)?);
        if let Some(components) = components {
            for (name, values) in component_lists(components)? {
                let values = read(&format!("component '{name}'"), &values)?;
                batch = fitting(batch.with_component(&name, &values))?;
            }
        }
        if let Some(lengths) = lengths {
            batch = fitting(batch.with_lengths(&read("lengths", lengths)?))?;
        }
        if let Some(advantages) = advantages {
            batch = fitting(batch.with_advantages(&read("advantages", advantages)?))?;
        }
        if let Some(truncated) = truncated {
            batch = fitting(batch.with_truncated(&read("truncated", truncated)?))?;
        }
        if let Some(prompts) = prompt_ids {
            batch = fitting(batch.with_prompts(prompt_names(prompts)?))?;
        }
        if batch.group_count() == 0 {
            return Ok(PyDict::new(py));
        }
        let metrics = py.detach(|| {
            let mut history = self.locked();
            history.push(batch);
            named_metrics(&history.newest())
        });
        let dict = PyDict::new(py);
        for (name, value) in metrics {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// Everything about the newest `window` groups, or all.
    #[pyo3(signature = (window=None))]
    fn distribution<'py>(
        &self,
        py: Python<'py>,
        window: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = py.detach(|| self.locked().distribution(window));
        as_python(py, serde_json::to_string(&found))
    }

    /// What is known about one prompt, or None.
    fn prompt<'py>(
        &self,
        py: Python<'py>,
        prompt_id: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let name = text_of(&prompt_id.str()?).into_owned();
        let record = py.detach(|| self.locked().prompt(&name).cloned());
        as_python(py, serde_json::to_string(&record))
    }

    /// Groups kept.
    #[getter]
    fn group_count(&self, py: Python<'_>) -> usize {
        py.detach(|| self.locked().group_count())
    }
}

impl PyRewardHistory {
    /// Only locked without the interpreter, so that whoever waits for it holds nothing up.
    fn locked(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// JSON as dictionaries and lists; what is not known is None.
pub(crate) fn as_python(
    py: Python<'_>,
    json: serde_json::Result<String>,
) -> PyResult<Bound<'_, PyAny>> {
    let text = json.map_err(|error| value_error(error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}

fn fitting(batch: Result<GroupBatch, ShapeError>) -> PyResult<GroupBatch> {
    batch.map_err(|error| value_error(error.to_string()))
}

fn component_lists<'py>(
    components: &Bound<'py, PyAny>,
) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    let Some(dict) = as_dict(components) else {
        return Err(value_error(
            "components is not a dictionary of names and lists",
        ));
    };
    dict.iter()
        .filter(|(_, values)| !values.is_none())
        .map(|(name, values)| Ok((text_of(&name.str()?).into_owned(), values)))
        .collect()
}

/// One name for each group; a single name stands for a single group.
fn prompt_names(prompts: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let listed = prompts.call_method0("tolist").ok();
    let prompts = listed.as_ref().unwrap_or(prompts);
    let name = |prompt: &Bound<'_, PyAny>| Ok(text_of(&prompt.str()?).into_owned());
    let is_text = prompts.is_instance_of::<PyString>();
    if is_text || !prompts.hasattr("__iter__")? {
        return Ok(vec![name(prompts)?]);
    }
    prompts.try_iter()?.map(|prompt| name(&prompt?)).collect()
}

fn scale(name: Option<&str>) -> PyResult<AdvantageScale> {
    match name {
        None | Some("group") => Ok(AdvantageScale::Group),
        Some("batch") => Ok(AdvantageScale::Batch),
        Some("none") => Ok(AdvantageScale::None),
        Some(other) => Err(value_error(format!(
            "advantage_scale is {other:?}; it must be 'group', 'batch' or 'none'"
        ))),
    }
}

fn finite(what: &str, value: Option<f64>) -> PyResult<Option<f64>> {
    match value {
        Some(value) if !value.is_finite() => Err(value_error(format!(
            "{what} is {value}; it must be a finite number"
        ))),
        value => Ok(value),
    }
}

fn not_negative(what: &str, value: Option<f64>) -> PyResult<Option<f64>> {
    match finite(what, value)? {
        Some(value) if value < 0.0 => Err(value_error(format!(
            "{what} is {value}; it must not be negative"
        ))),
        value => Ok(value),
    }
}
