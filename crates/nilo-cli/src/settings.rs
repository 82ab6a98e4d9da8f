//! The settings that hold here, for every verb that needs them. `nilo-settings` reads and judges the files.

pub(crate) use nilo_settings::{AlertTable, DEFAULT_INTERVAL_NANOS, Settings};

use nilo_recorder::Privacy;

use crate::failure::{Failure, warn};

/// Reads them, says what was left alone, and decides what recordings may tell.
pub(crate) fn load() -> Result<Settings, Failure> {
    let loaded = nilo_settings::load().map_err(|error| {
        let hint = error.hint();
        Failure::from(error).hint(hint)
    })?;
    if let Some(notice) = &loaded.notice {
        warn(notice);
        // SAFETY: the settings are read before the first thread is started.
        unsafe { std::env::set_var(nilo_settings::NOTICE_GIVEN, notice) };
    }
    decide_privacy(&loaded.settings, Privacy::default());
    Ok(loaded.settings)
}

/// A flag wins over a variable, that over the settings.
pub(crate) fn decide_privacy(settings: &Settings, flags: Privacy) {
    let settled = Privacy {
        keep_secrets: settings.keep_secrets.unwrap_or(false),
        shared: settings.shared.unwrap_or(false),
    }
    .or_by_environment();
    Privacy {
        keep_secrets: flags.keep_secrets || settled.keep_secrets,
        shared: flags.shared || settled.shared,
    }
    .apply();
}
