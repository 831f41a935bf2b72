//! The cost of a run's operations. Pure.

use crate::metrics::Prices;
use dragstrip_crds::{
    BenchmarkRunStatus,
    run::{CostStatus, NodeStatus},
};
use dragstrip_results::result::TOTAL;

/// Adds the cost of a million operations to each phase, if all its nodes have a price.
pub fn price(status: &mut BenchmarkRunStatus, prices: &Prices) {
    let kinds = |pick: fn(&NodeStatus) -> bool| -> Vec<Option<String>> {
        let nodes = status.nodes.iter().filter(|node| pick(node));
        nodes.map(|node| node.instance_type.clone()).collect()
    };
    let (servers, all) = (kinds(|node| node.serves), kinds(|node| node.serves || node.loads));
    for phase in &mut status.phases {
        let total = phase.operations.iter().find(|operation| operation.operation == TOTAL);
        let rate = total.map_or(0.0, |total| total.operations_per_second.mean);
        let cost = CostStatus {
            servers: prices.per_million_operations(&servers, rate),
            // The cost of clients alone says nothing about the server.
            servers_and_clients: prices.per_million_operations(&all, rate).filter(|_| !servers.is_empty()),
        };
        phase.cost_per_million_operations_usd = Some(cost).filter(|cost| *cost != CostStatus::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_crds::run::PhaseStatus;
    use serde_json::{Value, json};

    fn phase_of(operations: &Value, metrics: &Value) -> PhaseStatus {
        serde_json::from_value(json!({
            "name": "p", "tool": {"name": "t"}, "operations": operations, "repetitions": [], "metrics": metrics
        }))
        .unwrap()
    }

    fn total(rate: f64, p99: Option<f64>) -> Value {
        json!([{
            "operation": "TOTAL", "count": 1, "operationsPerSecond": {"repetitions": 1, "mean": rate},
            "bytesPerSecond": 0.0, "errors": 0,
            "latencyMilliseconds": {"p99": p99}
        }])
    }

    #[test]
    fn a_million_operations_have_a_price_where_all_nodes_have_one() {
        let mut status = BenchmarkRunStatus {
            phases: vec![phase_of(&total(1000.0, None), &json!([])), phase_of(&json!([]), &json!([]))],
            nodes: serde_json::from_value(json!([
                {"name": "s1", "instanceType": "own", "serves": true},
                {"name": "s2", "instanceType": "own", "serves": true},
                {"name": "c1", "instanceType": "other", "loads": true},
            ]))
            .unwrap(),
            ..BenchmarkRunStatus::default()
        };
        let costs = |status: &mut BenchmarkRunStatus, table: &str| {
            price(status, &Prices::with(&format!("instance_type,usd_per_hour\n{table}")).unwrap());
            let costs = status.phases.iter().map(|phase| phase.cost_per_million_operations_usd);
            serde_json::to_value(costs.collect::<Vec<_>>()).unwrap()
        };
        assert_eq!(
            costs(&mut status, "own,3.6\nother,1.8\n"),
            json!([{"servers": 2.0, "serversAndClients": 2.5}, null]),
            "what counts no operations has no price"
        );
        assert_eq!(
            costs(&mut status, "own,3.6\n"),
            json!([{"servers": 2.0}, null]),
            "the client's is not known"
        );
        assert_eq!(costs(&mut status, "other,1.8\n"), json!([null, null]));
    }
}
