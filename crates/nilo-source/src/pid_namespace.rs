//! Whether PIDs here are those that the kernel and its drivers use: in a container they are not.

use std::ffi::OsStr;

use crate::roots::Roots;

/// The kernel's fixed name for the first PID namespace (`PROC_PID_INIT_INO`).
pub(crate) const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Whether our PIDs are those of the machine.
pub fn has_machine_pids(roots: &Roots) -> bool {
    let namespace = std::fs::read_link(roots.proc.join("self/ns/pid"));
    namespace.is_ok_and(|name| name == OsStr::new(FIRST_NAMESPACE))
}
