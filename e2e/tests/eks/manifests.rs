//! The shipped manifests and the schemas of those who read them.

use anyhow::{Context, Result, anyhow, ensure};
use boon::{Compiler, Schemas};
use dragstrip_e2e::{Look, helm, kubectl, operator, until};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

/// A file of the project, by its path in it.
pub fn read(path: &str) -> Result<String> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

/// A YAML file of one object, with its merge keys resolved.
fn object(path: &str) -> Result<Value> {
    let mut yaml: serde_yaml::Value = serde_yaml::from_str(&read(path)?)?;
    // A merged mapping may merge another one.
    yaml.apply_merge()?;
    yaml.apply_merge()?;
    Ok(serde_json::to_value(yaml)?)
}

fn cluster() -> Result<Value> {
    object("deploy/eks/cluster.yaml")
}

fn node_groups(cluster: &Value) -> &[Value] {
    cluster["managedNodeGroups"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// What eksctl's schema says against `cluster`.
fn complaint(cluster: &Value) -> Result<Option<String>> {
    // Go's names of types hold bars, which no reference may.
    let schema = read("e2e/tests/eks/schemas/eksctl-v1alpha5.schema.json")?.replace('|', "-");
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    let not_a_schema = |error: boon::CompileError| anyhow!("eksctl's schema is not a schema: {error}");
    compiler.add_resource("eksctl.json", serde_json::from_str(&schema)?).map_err(not_a_schema)?;
    let eksctl = compiler.compile("eksctl.json", &mut schemas).map_err(not_a_schema)?;
    Ok(schemas.validate(cluster, eksctl).err().map(|error| format!("{error:#}")))
}

#[test]
fn eksctl_reads_the_cluster() -> Result<()> {
    let mut cluster = cluster()?;
    ensure!(complaint(&cluster)?.is_none(), "{:?}", complaint(&cluster)?);
    cluster["managedNodeGroups"][1]["placementGroup"] = "dragstrip".into();
    let reported = complaint(&cluster)?.context("an unknown field was accepted")?;
    ensure!(reported.contains("placementGroup"), "{reported}");
    Ok(())
}

#[test]
fn all_machines_for_benchmarks_are_in_one_zone_and_one_placement_group() -> Result<()> {
    let cluster = cluster()?;
    let (system, others) = node_groups(&cluster).split_first().context("no node groups")?;
    ensure!(system.get("taints").is_none(), "the system's nodes take what belongs nowhere else");
    let mut types = BTreeMap::new();
    for group in others {
        let name = &group["name"];
        ensure!(group["availabilityZones"] == others[0]["availabilityZones"], "{name} is in another zone");
        ensure!(group["availabilityZones"].as_array().map(Vec::len) == Some(1), "{name} is in several zones");
        ensure!(group["placement"]["groupName"] == "dragstrip", "{name} is in no placement group");
        ensure!(group["labels"]["dragstrip.dev/placement-group"] == "dragstrip", "{name} does not say so");
        let role = &group["labels"]["dragstrip.dev/role"];
        ensure!(group["taints"][0]["value"] == *role, "{name}: another taint than its role {role}");
        ensure!(group["desiredCapacity"] == 0, "{name} costs money before anybody uses it");
        types.insert(group["instanceType"].as_str(), role.as_str());
    }
    let known = super::machines::MACHINES.iter().map(|it| (Some(it.name), Some(it.role))).collect();
    ensure!(types == known, "node groups {types:?}, tested {known:?}");
    Ok(())
}

/// The objects of a YAML file.
fn objects(path: &str) -> Result<Vec<Value>> {
    let text = read(path)?;
    Ok(serde_yaml::Deserializer::from_str(&text).map(Value::deserialize).collect::<Result<_, _>>()?)
}

#[test]
fn karpenter_uses_reserved_machines_before_others_and_clean_up_cancels_those_alone() -> Result<()> {
    let (documents, page) = (objects("deploy/eks/karpenter.yaml")?, read("docs/eks.md")?);
    let class = documents.iter().find(|one| one["kind"] == "EC2NodeClass").context("no EC2NodeClass")?;
    let terms = json!([{"tags": {"dragstrip.dev/placement-group": "dragstrip"}}]);
    ensure!(class["spec"]["capacityReservationSelectorTerms"] == terms, "reservations stay idle: {class}");
    ensure!(
        class["spec"]["placementGroupSelector"] == json!({"name": "dragstrip"}),
        "another group: {class}"
    );
    let pools: Vec<&Value> = documents.iter().filter(|one| one["kind"] == "NodePool").collect();
    ensure!(pools.len() == 2, "not a pool for servers and one for clients");
    for pool in pools {
        let requirements = pool["spec"]["template"]["spec"]["requirements"].as_array();
        let mut requirements = requirements.into_iter().flatten();
        let capacity = requirements.find(|one| one["key"] == "karpenter.sh/capacity-type");
        let values = capacity.map(|one| &one["values"]);
        ensure!(
            values == Some(&json!(["reserved", "on-demand"])),
            "{}: {values:?}",
            pool["metadata"]["name"]
        );
    }
    for words in [
        "Tags=[{Key=dragstrip.dev/placement-group,Value=dragstrip}]",
        "--end-date-type limited",
        "Name=tag:dragstrip.dev/placement-group,Values=dragstrip Name=state,Values=active",
    ] {
        ensure!(page.contains(words), "docs/eks.md lacks {words:?}");
    }
    let lists = page.matches("describe-capacity-reservations").count();
    let by_tag = page.matches("--filters Name=tag:dragstrip.dev/placement-group").count();
    ensure!((lists, by_tag) == (1, 1), "docs/eks.md lists reservations {lists} times, {by_tag} by the tag");
    Ok(())
}

#[test]
fn the_page_requests_as_many_cpus_as_the_first_pair_and_the_system_have() -> Result<()> {
    let page = read("docs/eks.md")?;
    let first = page.lines().find(|line| line.starts_with("| Dragonfly")).context("no first pair")?;
    let named = super::machines::MACHINES.iter().filter(|machine| first.contains(machine.name));
    let pair: u32 = named.map(super::machines::Machine::cpus).sum();
    let words = format!("The first pair needs {pair} and the system\n4, so request 128.");
    ensure!(page.contains(&words), "docs/eks.md does not say {words:?}");
    ensure!(pair + 4 <= 128, "128 are not enough for {pair} and 4");
    let cluster = cluster()?;
    let system = &node_groups(&cluster)[0];
    ensure!(
        system["instanceType"] == "m7i.large" && system["desiredCapacity"] == 2,
        "not 2 x 2 CPUs: {system}"
    );
    Ok(())
}

#[test]
fn no_command_of_a_running_node_sets_kernel_arguments() -> Result<()> {
    for file in ["deploy/eks/cluster.yaml", "deploy/eks/karpenter.yaml"] {
        let text = read(file)?;
        for words in ["grubby", "max_cstate", "GRUB_CMDLINE"] {
            ensure!(!text.contains(words), "{file} has {words}: the kernel has started by then");
        }
    }
    Ok(())
}

#[test]
fn karpenters_nodes_are_as_eksctls() -> Result<()> {
    let cluster = cluster()?;
    let server = &node_groups(&cluster)[1];
    let mut types: Vec<&str> = Vec::new();
    let mut class = Value::Null;
    let documents = objects("deploy/eks/karpenter.yaml")?;
    for document in &documents {
        let requirements = document["spec"]["template"]["spec"]["requirements"].as_array();
        for requirement in requirements.into_iter().flatten() {
            let values = requirement["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
            if requirement["key"] == "node.kubernetes.io/instance-type" {
                types.extend(values);
            } else if requirement["key"] == "topology.kubernetes.io/zone" {
                ensure!(requirement["values"] == server["availabilityZones"], "another zone: {requirement}");
            }
        }
        if document["kind"] == "EC2NodeClass" {
            class = document["spec"].clone();
        }
    }
    let tested: Vec<&str> = super::machines::MACHINES.iter().map(|machine| machine.name).collect();
    ensure!(types == tested, "node pools {types:?}, tested {tested:?}");
    let user_data = class["userData"].as_str().context("no userData")?;
    let node_config = user_data.split("\n\n").nth(2).context("no NodeConfig in userData")?;
    let mut ours: Value = serde_yaml::from_str(node_config)?;
    ours["spec"]["kubelet"]["config"]["kubeReserved"] = class["kubelet"]["kubeReserved"].clone();
    let eksctls: Value =
        serde_yaml::from_str(server["overrideBootstrapCommand"].as_str().unwrap_or_default())?;
    ensure!(ours == eksctls, "Karpenter's {ours}, eksctl's {eksctls}");
    Ok(())
}

#[test]
fn nodes_write_the_shipped_seccomp_profile() -> Result<()> {
    let profile = read("deploy/seccomp/dragstrip-io-uring.json")?;
    for file in ["deploy/eks/cluster.yaml", "deploy/eks/karpenter.yaml"] {
        let written = read(file)?.lines().filter(|line| line.trim() == profile.trim()).count();
        ensure!(written == 1, "{file} writes another profile than deploy/seccomp/dragstrip-io-uring.json");
    }
    Ok(())
}

#[test]
fn the_seccomp_profile_allows_io_uring_and_nothing_that_takes_a_capability() -> Result<()> {
    let profile: Value = serde_json::from_str(&read("deploy/seccomp/dragstrip-io-uring.json")?)?;
    let rules = profile["syscalls"].as_array().context("no rules")?;
    let allowed = |call: &str| {
        let mut of_call = rules.iter().filter(|rule| rule["action"] == "SCMP_ACT_ALLOW");
        of_call.any(|rule| rule["names"].as_array().is_some_and(|names| names.contains(&call.into())))
    };
    ensure!(profile["defaultAction"] == "SCMP_ACT_ERRNO", "calls are allowed by default");
    for call in ["io_uring_setup", "io_uring_enter", "io_uring_register", "epoll_wait", "sched_setaffinity"] {
        ensure!(allowed(call), "{call} is refused");
    }
    for call in ["bpf", "mount", "init_module", "reboot", "setns", "unshare", "keyctl", "userfaultfd"] {
        ensure!(!allowed(call), "{call} is allowed");
    }
    Ok(())
}

/// Has the apiserver take the definitions in `files`.
async fn define(files: &[&str]) -> Result<()> {
    for file in files {
        let definition = read(&format!("e2e/tests/eks/schemas/{file}.crd.yaml"))?;
        kubectl::must(&["apply", "--server-side", "--filename", "-"], &definition).await?;
    }
    // kubectl wait fails at once if a definition has no conditions yet.
    until("the definitions are established", Duration::from_secs(30), async || {
        let wait = ["wait", "--for", "condition=established", "--timeout", "10s", "crd", "--all"];
        kubectl::must(&wait, "").await.map(|_| Look::Done(()))
    })
    .await
}

async fn dry_run(manifests: &str) -> Result<kubectl::Output> {
    kubectl::run(
        &["apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename", "-"],
        manifests,
    )
    .await
}

#[tokio::test]
async fn the_apiserver_takes_what_is_for_karpenter() -> Result<()> {
    define(&["karpenter.k8s.aws_ec2nodeclasses", "karpenter.sh_nodepools"]).await?;
    let manifests = read("deploy/eks/karpenter.yaml")?;
    let taken = dry_run(&manifests).await?;
    ensure!(taken.success && taken.stdout.lines().count() == 3, "{}{}", taken.stdout, taken.stderr);
    for (right, wrong, reported) in [
        ("placementGroupSelector: {name", "placementGroupSelector: {id: pg-1, name", "mutually exclusive"),
        ("placementGroupSelector:", "placementGroup:", "field not declared in schema"),
        ("consolidationPolicy: WhenEmpty", "consolidationPolicy: Never", "Unsupported value"),
        ("capacityReservationSelectorTerms:", "capacityReservations:", "field not declared in schema"),
        (
            "Terms: [{tags: {dragstrip.dev/placement-group: dragstrip}}]",
            "Terms: [{}]",
            "expected at least one",
        ),
    ] {
        let refused = dry_run(&manifests.replace(right, wrong)).await?;
        ensure!(!refused.success && refused.stderr.contains(reported), "{wrong}: {}", refused.stderr);
    }
    Ok(())
}

#[tokio::test]
async fn the_apiserver_takes_the_seccomp_daemon_set() -> Result<()> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/seccomp");
    let manifests = kubectl::must(&["kustomize", directory], "").await?;
    // A dry run makes no namespace for what comes in it.
    let taken = dry_run(&manifests.replace("namespace: dragstrip-seccomp", "namespace: default")).await?;
    ensure!(taken.success && taken.stdout.lines().count() == 3, "{}{}", taken.stdout, taken.stderr);
    Ok(())
}

#[tokio::test]
async fn the_apiserver_takes_the_charts_monitors_and_alert_rules() -> Result<()> {
    let kinds = ["servicemonitors", "podmonitors", "prometheusrules"];
    let files = kinds.map(|kind| format!("monitoring.coreos.com_{kind}"));
    define(&files.each_ref().map(String::as_str)).await?;
    let settings = [
        "monitors.enabled=true",
        "alerts.enabled=true",
        "monitors.dragonfly[0]=fly",
        "monitors.scrapeTimeout=10s",
        "monitors.relabelings[0].targetLabel=team",
        "monitors.relabelings[0].replacement=speed",
        "monitors.metricRelabelings[0].action=labeldrop",
        "monitors.metricRelabelings[0].regex=pod",
    ];
    let rendered = helm::template(&settings).await?;
    let documents =
        rendered.split("\n---").filter(|text| text.contains("apiVersion: monitoring.coreos.com/"));
    // A dry run needs the namespace to be there.
    let manifests = documents.collect::<Vec<_>>().join("\n---\n").replace(operator::NAMESPACE, "default");
    let taken = dry_run(&manifests).await?;
    ensure!(taken.success, "{}{}", taken.stdout, taken.stderr);
    for kind in ["servicemonitor.", "podmonitor.", "prometheusrule."] {
        ensure!(taken.stdout.contains(kind), "the chart has no {kind}: {}", taken.stdout);
    }
    Ok(())
}
