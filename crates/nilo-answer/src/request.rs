//! What `nilo request` answers: the memory and the time to ask a scheduler for.

use nilo_request::Request;
use nilo_request::slurm::Account;
use schemars::JsonSchema;
use serde::Serialize;

/// The request with Slurm's account of the same jobs.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct RequestAnswer {
    /// What to ask for.
    #[serde(flatten)]
    pub request: Request,
    /// The runs beside their jobs in Slurm's account, where one was given.
    pub slurm_account: Vec<Account>,
}
