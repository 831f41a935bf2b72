//! The memory of every server, by its own account and by its container's. Touches the network,
//! /proc and the cgroup file system.

use super::{
    finder::{self, Servers},
    neighbours::Neighbours,
};
use crate::{
    measuring::{cgroup, processes},
    server::connection::{Server, ServerError},
};
use dragstrip_results::memory::MemberMemory;

pub async fn memory(neighbours: &Neighbours, servers: &Servers) -> Vec<MemberMemory> {
    let found = finder::listeners(&servers.ports);
    let mut all = Vec::with_capacity(found.len());
    for (neighbour, process) in neighbours.servers.iter().zip(found) {
        let answer = neighbours.query(neighbour, async |server: &mut Server| server.memory().await).await;
        let account = answer.unwrap_or_else(|error| match error {
            ServerError::NoResp => from_kernel(process),
            error => MemberMemory {
                unread: Some(neighbours.redactor.clean(&error.to_string())),
                ..MemberMemory::default()
            },
        });
        let server = neighbour.address.port().to_string();
        all.push(MemberMemory { server, ..with_cgroup(account, process) });
    }
    all
}

/// The memory of the server's `process` by the kernel's account: resident now, and at most.
fn from_kernel(process: Option<i32>) -> MemberMemory {
    let usage = process.and_then(processes::read).map(|read| read.usage);
    MemberMemory {
        rss_bytes: usage.as_ref().map(|usage| usage.memory_bytes),
        peak_bytes: usage.as_ref().map(|usage| usage.memory_peak_bytes),
        unread: usage.is_none().then(|| "found no process that listens on the server's port".to_owned()),
        ..MemberMemory::default()
    }
}

/// `account` with that of the container of the server's `process`.
fn with_cgroup(account: MemberMemory, process: Option<i32>) -> MemberMemory {
    let Some(read) = process.and_then(|process| cgroup::read(&finder::cgroup_root(process))) else {
        let unread =
            account.unread.or_else(|| Some("cannot read the memory of the server's container".to_owned()));
        return MemberMemory { unread, ..account };
    };
    let usage = read.usage;
    MemberMemory {
        cgroup_bytes: Some(usage.memory_bytes.saturating_sub(usage.inactive_file_bytes)),
        // Kernels before 5.19 have no peak.
        cgroup_peak_bytes: Some(usage.memory_peak_bytes).filter(|peak| *peak > 0),
        ..account
    }
}
