//! `dragstrip calibrate --floor`: puts the same load on a server that answers at once, on the server's
//! node, and prints its figures beside the run's: the part of the harness and the network. Needs the client.

use super::{Error, Load, Options};
use crate::{
    cluster::{
        client::{Cluster, Subject},
        follow,
    },
    output::{input::text_report, print},
};
use dragstrip_crds::{BenchmarkRun, Datastore};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use std::process::ExitCode;

/// The sidecar whose image contains the server that answers at once.
const OBSERVER: &str = "observer";
const HOST: &str = "kubernetes.io/hostname";
/// Fields of a phase that need a real datastore, or make it more than one measurement.
const LEFT_OUT: [&str; 6] = ["load", "flush", "memory", "minimumHitRatio", "allowEviction", "search"];

/// The image and the node of the server of `pod`.
fn observed(pod: &Pod) -> Option<(&str, &str)> {
    let spec = pod.spec.as_ref()?;
    let observer = spec.init_containers.iter().flatten().find(|one| one.name == OBSERVER)?;
    Some((observer.image.as_deref()?, spec.node_name.as_deref()?))
}

/// The phases that only read and write keys, without what the instant server cannot do.
fn phases(declared: &Value) -> Vec<Value> {
    let simple = |phase: &&Value| phase.get("loadgen").is_some() || phase.get("memtier").is_some();
    let mut phases: Vec<Value> = declared.as_array().into_iter().flatten().filter(simple).cloned().collect();
    for phase in &mut phases {
        if let Some(fields) = phase.as_object_mut() {
            fields.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
        }
    }
    phases
}

/// The run: `load` on an instant server with the placement of `datastore`, on one node.
fn run(options: &Options, name: &str, load: &Load, datastore: &Datastore, on: (&str, &str)) -> Value {
    let (image, node) = on;
    let mut placement = json!(datastore.spec.placement);
    if !placement["nodeSelector"].is_object() {
        placement["nodeSelector"] = json!({});
    }
    placement["nodeSelector"][HOST] = json!(node);
    json!({
        "apiVersion": "dragstrip.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": name},
        "spec": {
            "target": {"datastore": {
                "engine": "Custom",
                "image": image,
                "threads": 1,
                "custom": {"command": ["/dragstrip-loadgen", "answer"], "protocol": "Resp"},
                "placement": placement
            }},
            "timeout": options.timeout.to_string(),
            "clients": load.clients,
            "phases": phases(&load.phases)
        }
    })
}

/// Measures the floor of `load` on the node of `datastore`, prints it and removes the run.
pub async fn measure(
    cluster: &Cluster,
    options: &Options,
    datastore: &Datastore,
    load: &Load,
) -> Result<ExitCode, Error> {
    let pod = datastore.status.as_ref().and_then(|status| status.pod.clone());
    let pod = pod.ok_or_else(|| Error::NoServer(options.datastore.clone()))?;
    let pods: Api<Pod> = cluster.api();
    let pod = pods.get(&pod).await.map_err(|error| Error::Pod(Box::new(error), pod))?;
    let on = observed(&pod).ok_or_else(|| Error::NoServer(options.datastore.clone()))?;
    let name = format!("floor-{}", Timestamp::now().strftime("%m%d-%H%M%S"));
    let run: BenchmarkRun =
        serde_json::from_value(run(options, &name, load, datastore, on)).map_err(Error::Build)?;
    let api = cluster.api::<BenchmarkRun>();
    let created = api.create(&PostParams::default(), &run).await;
    let created = created.map_err(|error| Error::Create(Box::new(error)))?;
    print::line(&format!("run/{name} created"))?;
    let ending = follow::subjects(cluster, vec![Subject::Run(Box::new(created))], &options.timeout).await?;
    let floor = cluster.find::<BenchmarkRun>(&name).await?;
    print::line(&format!("of this, the harness and the network are {name}:"))?;
    print::line(&text_report(&Vec::from_iter(load.run.clone().into_iter().chain(floor))))?;
    let removed = api.delete(&name, &DeleteParams::background()).await;
    removed.map_err(|error| Error::Remove(Box::new(error), name))?;
    Ok(ending.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::calibrate::tests::options;

    fn datastore() -> Datastore {
        serde_json::from_value(json!({"apiVersion": "dragstrip.dev/v1alpha1", "kind": "Datastore",
            "metadata": {"name": "redis"}, "spec": {"engine": "Redis", "threads": 2,
                "placement": {"nodeSelector": {"pool": "servers"}}}}))
        .unwrap()
    }

    #[test]
    fn the_api_server_and_the_operator_accept_the_run() {
        let options = options(&["--datastore", "redis", "--floor"]);
        let load = Load::of(&options, None).unwrap();
        let mut value = run(&options, "floor-0101-123456", &load, &datastore(), ("runner:1", "node-a"));
        value["metadata"]["namespace"] = json!("races");
        value["metadata"]["uid"] = json!("uid");
        let run: BenchmarkRun = serde_json::from_value(value).unwrap();
        run.validate_cel().unwrap_or_else(|errors| panic!("{errors:?}"));
        dragstrip_core::run::validate::validate(&run).unwrap();
        let server = run.spec.target.datastore().unwrap();
        assert_eq!(server.placement.node_selector[HOST], "node-a", "it is on the server's node");
        assert_eq!(server.placement.node_selector["pool"], "servers");
        assert!(run.spec.phases[0].load.is_none(), "an instant server stores no key");
    }

    #[test]
    fn only_phases_of_plain_reads_and_writes_have_a_floor() {
        let declared = json!([{"name": "a", "memtier": {}, "search": {}}, {"name": "b", "bullmq": {}}]);
        assert_eq!(phases(&declared), [json!({"name": "a", "memtier": {}})]);
    }
}
