//! The verdict on a merged repetition. Pure.

use super::{
    search::knee,
    validate::attempt::{Attempt, ValidatedRun},
};
use dragstrip_crds::{
    DatastoreSpec,
    run::{CheckName, Level, Requirement},
};
use dragstrip_results::{
    result::{CpuSetRecord, RepetitionResult},
    usage::ContainerUsage,
    verdict,
};

/// The requirements of `run`, and a warning if it or its `datastore` declares exclusive CPUs.
pub fn requirements(run: &ValidatedRun, datastore: Option<&DatastoreSpec>) -> Vec<Requirement> {
    let mut requirements = run.spec.requirements.clone();
    let check = CheckName::ExclusiveCPUs;
    let exclusive = run.spec.clients.cpu.exclusive || datastore.is_some_and(|spec| spec.cpu.exclusive);
    if exclusive && requirements.iter().all(|requirement| requirement.check != check) {
        requirements.push(Requirement { check, level: Level::Warn, limit: None });
    }
    requirements
}

/// The CPUs that every client and server of `result` could run on; `whole_cpus` says how many a
/// pod of this name has for its own.
pub fn cpu_sets(result: &RepetitionResult, whole_cpus: impl Fn(&str) -> Option<u32>) -> Vec<CpuSetRecord> {
    let clients = result.pods.iter().map(|pod| (&pod.pod, &pod.node, &pod.client, false));
    let servers = result.servers.iter().map(|one| (&one.server, &one.node, &one.usage, true));
    let record = |(name, node, usage, serves): (&String, &Option<String>, &ContainerUsage, bool)| {
        CpuSetRecord {
            pod: name.clone(),
            node: node.clone(),
            serves,
            cpus: usage.cgroup.as_ref().map(|cgroup| cgroup.cpuset.clone()).unwrap_or_default(),
            online: usage.host.as_ref().map_or(0, |host| host.cpus),
            // Several servers of one pod are named by their ports too.
            whole_cpus: whole_cpus(name.split(':').next().unwrap_or(name)),
        }
    };
    clients.chain(servers).map(record).collect()
}

/// Gives `result` of `attempt` its verdict, and its point of a search the usage of the servers, which
/// nobody knew when the clients' results were merged.
pub fn judge(
    run: &ValidatedRun,
    attempt: &Attempt,
    datastore: Option<&DatastoreSpec>,
    result: &mut RepetitionResult,
) {
    let server_cpus = result.server_cpus();
    result.point.iter_mut().for_each(|point| point.server_cpus = server_cpus);
    let declared = requirements(run, datastore);
    let requirements = if attempt.confirms() { &[] } else { knee::requirements(result, &declared) };
    verdict::judge(result, &attempt.tool, requirements);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{pod_result, run, searching},
        run::{merge::merge, validate::validate},
    };
    use serde_json::json;

    #[test]
    fn declared_exclusive_cpus_that_do_not_exist_cause_a_warning() {
        let mut declared = run(&["read"], 1);
        let levels = |run: &dragstrip_crds::BenchmarkRun| -> Vec<Level> {
            let run = validate(run).unwrap();
            requirements(&run, None).iter().map(|requirement| requirement.level).collect()
        };
        assert_eq!(levels(&declared), []);
        declared.spec.clients.cpu.exclusive = true;
        assert_eq!(levels(&declared), [Level::Warn]);
        declared.spec.requirements =
            serde_json::from_value(json!([{"check": "ExclusiveCPUs", "level": "Ignore"}])).unwrap();
        assert_eq!(levels(&declared), [Level::Ignore], "people's own word counts");
    }

    #[test]
    fn a_point_of_a_search_has_the_cpus_that_the_servers_used() {
        let search = json!({"raise": "Connections", "to": 8, "until": {"serverCpus": "0.7"}});
        let run = validate(&searching(search, 1)).unwrap();
        let mut attempt = run.attempts.iter().find(|attempt| attempt.point.is_some()).unwrap().clone();
        attempt.point.as_mut().unwrap().value = Some(1);
        let mut result = merge(&attempt, 1, vec![pod_result("p", 1000, 1.0, 100)]);
        assert_eq!(result.point.as_ref().unwrap().server_cpus, None, "the clients do not know it");
        let usage =
            json!({"seconds": 10.0, "cpuSeconds": 5.0, "throttledSeconds": 0.0, "throttledPeriods": 0});
        result.servers = serde_json::from_value(json!([{"server": "redis-0", "usage": usage}])).unwrap();
        judge(&run, &attempt, None, &mut result);
        assert_eq!(result.point.unwrap().server_cpus, Some(0.5));
    }
}
