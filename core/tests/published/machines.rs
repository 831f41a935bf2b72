//! Every machine that a suite names can be had and has a price. Reads deploy/eks and the prices.

use super::{SUITES, WITHOUT_TABLE, runs};
use std::{collections::BTreeSet, fs, path::Path};

fn project(path: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The instance types of the servers and clients of a suite.
pub fn machines(name: &str) -> BTreeSet<String> {
    let of_run = |run: &super::ChildRun| {
        let server = run.spec.target.datastore().and_then(|spec| spec.placement.instance_type.clone());
        [server, run.spec.clients.placement.instance_type.clone()]
    };
    runs(name).iter().flat_map(of_run).flatten().collect()
}

#[test]
fn every_machine_of_a_suite_is_in_deploy_eks_and_has_a_price() {
    let (eksctl, karpenter) = (project("deploy/eks/cluster.yaml"), project("deploy/eks/karpenter.yaml"));
    let prices = project("operator/src/metrics/prices.csv");
    let named = SUITES.iter().map(|(name, ..)| *name).chain(WITHOUT_TABLE).flat_map(machines);
    for machine in named.collect::<BTreeSet<_>>() {
        let group = format!("instanceType: {machine}");
        assert!(eksctl.contains(&group), "deploy/eks/cluster.yaml has no node group of {machine}");
        let pool = [",", "]"].iter().any(|end| karpenter.contains(&format!("{machine}{end}")));
        assert!(pool, "no node pool of deploy/eks/karpenter.yaml has {machine}");
        let price = prices.lines().any(|line| line.starts_with(&format!("{machine},")));
        assert!(price, "operator/src/metrics/prices.csv has no price of {machine}");
    }
}
