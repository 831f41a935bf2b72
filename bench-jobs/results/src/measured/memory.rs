//! The memory of servers, as they and their containers account for it. Pure.

use dragstrip_crds::run::{MemoryMoment, MemoryReading, SUM};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The memory of one server; unknown figures are absent.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberMemory {
    /// The server: an observer names it by its port, the operator by its pod.
    pub server: String,
    /// `used_memory`, in bytes.
    pub used_bytes: Option<u64>,
    /// `used_memory_rss`, or VmRSS of the process of a server that speaks no RESP, in bytes.
    pub rss_bytes: Option<u64>,
    /// `used_memory_peak`, or VmHWM of the process of a server that speaks no RESP, in bytes.
    pub peak_bytes: Option<u64>,
    /// Keys, by DBSIZE.
    pub keys: Option<u64>,
    /// Memory of its container, without files that could be dropped, in bytes.
    pub cgroup_bytes: Option<u64>,
    /// The most that its container has used, in bytes.
    pub cgroup_peak_bytes: Option<u64>,
    /// Why something is absent.
    pub unread: Option<String>,
}

/// `members` as they were read `seconds` after the load, with the row of all together: a figure
/// that one member does not report has no sum. Nothing without members.
pub fn readings(moment: MemoryMoment, seconds: f64, members: Vec<MemberMemory>) -> Vec<MemoryReading> {
    if members.is_empty() {
        return Vec::new();
    }
    let sum = |pick: fn(&MemberMemory) -> Option<u64>| members.iter().map(pick).sum::<Option<u64>>();
    let unread: Vec<&str> =
        members.iter().filter(|one| one.unread.is_some()).map(|one| one.server.as_str()).collect();
    let all = MemberMemory {
        server: SUM.to_owned(),
        used_bytes: sum(|one| one.used_bytes),
        rss_bytes: sum(|one| one.rss_bytes),
        peak_bytes: sum(|one| one.peak_bytes),
        keys: sum(|one| one.keys),
        cgroup_bytes: sum(|one| one.cgroup_bytes),
        cgroup_peak_bytes: sum(|one| one.cgroup_peak_bytes),
        unread: (!unread.is_empty()).then(|| format!("not all reported: {}", unread.join(", "))),
    };
    members.into_iter().chain([all]).map(|member| reading(moment, seconds, member)).collect()
}

fn reading(moment: MemoryMoment, seconds: f64, member: MemberMemory) -> MemoryReading {
    let keys = member.keys.filter(|keys| *keys > 0);
    MemoryReading {
        moment,
        seconds,
        member: member.server,
        used_bytes: member.used_bytes,
        rss_bytes: member.rss_bytes,
        peak_bytes: member.peak_bytes,
        cgroup_bytes: member.cgroup_bytes,
        cgroup_peak_bytes: member.cgroup_peak_bytes,
        keys: member.keys,
        bytes_per_key: member.used_bytes.zip(keys).map(|(used, keys)| used as f64 / keys as f64),
        unread: member.unread,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(server: &str, used: Option<u64>, keys: Option<u64>) -> MemberMemory {
        let unread = used.is_none().then(|| "no answer".to_owned());
        MemberMemory {
            server: server.into(),
            used_bytes: used,
            keys,
            cgroup_bytes: Some(50),
            unread,
            ..MemberMemory::default()
        }
    }

    #[test]
    fn all_servers_together_are_a_row_of_their_own() {
        let rows = readings(
            MemoryMoment::Settled,
            60.0,
            vec![member("a", Some(100), Some(4)), member("b", Some(300), Some(0))],
        );
        let figures: Vec<_> =
            rows.iter().map(|row| (row.member.as_str(), row.used_bytes, row.bytes_per_key)).collect();
        assert_eq!(
            figures,
            [("a", Some(100), Some(25.0)), ("b", Some(300), None), (SUM, Some(400), Some(100.0))],
            "a server without keys has no bytes for one"
        );
        assert_eq!((rows[2].cgroup_bytes, rows[2].unread.as_deref()), (Some(100), None));
        assert_eq!(readings(MemoryMoment::Settled, 60.0, vec![]), vec![]);
    }

    #[test]
    fn a_server_without_the_figure_is_not_a_zero_in_the_sum() {
        let rows = readings(
            MemoryMoment::RightAfter,
            1.0,
            vec![member("a", Some(100), Some(4)), member("b", None, None)],
        );
        let all = rows.last().unwrap();
        assert_eq!((all.used_bytes, all.keys, all.cgroup_bytes), (None, None, Some(100)));
        assert_eq!(all.unread.as_deref(), Some("not all reported: b"));
    }
}
