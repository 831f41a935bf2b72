//! What this container used while the load ran. Touches the own cgroup, and
//! the kernel's account of ended children.

use crate::cgroup;
use dragstrip_results::{observed::CgroupUsage, usage::ContainerUsage};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike as _,
};
use std::path::Path;

/// The account at the beginning.
#[derive(Debug)]
pub struct Opening(Option<CgroupUsage>);

/// Opens the account.
pub fn open() -> Opening {
    Opening(cgroup::read(Path::new(cgroup::OWN_ROOT)))
}

impl Opening {
    /// Closes the account: the whole container's usage since it was opened, the
    /// runner's own share included; the ended tool's CPU time alone where the
    /// cgroup cannot be read.
    pub fn close(self) -> ContainerUsage {
        match (self.0, cgroup::read(Path::new(cgroup::OWN_ROOT))) {
            (Some(before), Some(after)) => cgroup::usage_between(&before, after),
            _ => ContainerUsage { cpu_seconds: ended_children_seconds(), ..ContainerUsage::default() },
        }
    }
}

fn ended_children_seconds() -> f64 {
    getrusage(UsageWho::RUSAGE_CHILDREN)
        .map_or(0.0, |usage| (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6)
}
