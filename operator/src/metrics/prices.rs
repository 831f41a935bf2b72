//! Prices and network bandwidths of instance types, and the cost of operations. Pure.

use dragstrip_crds::units::whole;
use serde::Deserialize;
use std::collections::HashMap;

/// The built-in prices: on demand, in AWS us-east-1.
const BUILT_IN: &str = include_str!("prices.csv");

/// A row of a price table; other columns are ignored.
#[derive(Debug, Clone, Deserialize)]
struct Row {
    instance_type: String,
    #[serde(alias = "usd_per_hour_us_east_1")]
    usd_per_hour: f64,
    #[serde(default)]
    baseline_network_gbps: Option<f64>,
}

/// Prices and network bandwidths by instance type.
#[derive(Debug, Clone, Default)]
pub struct Prices(HashMap<String, Row>);

impl Prices {
    /// The built-in prices, overridden by those of `own`: a CSV table with the columns `instance_type`,
    /// `usd_per_hour` (or `usd_per_hour_us_east_1`) and optionally `baseline_network_gbps`. Lines that
    /// begin with # are comments.
    pub fn with(own: &str) -> Result<Self, csv::Error> {
        let mut prices = Self::default();
        for table in [BUILT_IN, own] {
            let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(table.as_bytes());
            for row in reader.deserialize() {
                let mut row: Row = row?;
                let earlier = prices.0.remove(&row.instance_type);
                row.baseline_network_gbps =
                    row.baseline_network_gbps.or(earlier.and_then(|row| row.baseline_network_gbps));
                prices.0.insert(row.instance_type.clone(), row);
            }
        }
        Ok(prices)
    }

    pub fn network_megabits_per_second(&self, instance_type: &str) -> Option<u64> {
        self.0.get(instance_type)?.baseline_network_gbps.map(|rate| whole((rate * 1000.0).round()))
    }

    /// Dollars that a million operations cost on nodes of these instance types, at so many
    /// operations per second: (sum of the nodes' dollars per hour) / (operations per second
    /// x 3600) x 1,000,000. A node counts completely, whatever share of it is used. `None` if a
    /// price is unknown, there are no nodes, or no operations.
    pub fn per_million_operations(
        &self,
        instance_types: &[Option<String>],
        operations_per_second: f64,
    ) -> Option<f64> {
        let price = |instance_type: &Option<String>| Some(self.0.get(instance_type.as_ref()?)?.usd_per_hour);
        let hourly: f64 = instance_types.iter().map(price).sum::<Option<f64>>()?;
        (!instance_types.is_empty() && operations_per_second > 0.0)
            .then(|| hourly / (operations_per_second * 3600.0) * 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_operations_cost_what_all_server_nodes_cost_in_their_time() {
        let prices = Prices::with("instance_type,usd_per_hour\nown,3.6\n").unwrap();
        let nodes = |types: &[&str]| types.iter().map(|kind| Some((*kind).to_owned())).collect::<Vec<_>>();
        let cost = |types: &[&str], rate| prices.per_million_operations(&nodes(types), rate);
        assert!((cost(&["own"], 1000.0).unwrap() - 1.0).abs() < 1e-12, "1000 s of 0.001 dollars each");
        assert!((cost(&["own", "own"], 1000.0).unwrap() - 2.0).abs() < 1e-12, "both nodes cost");
        assert!(cost(&["c7gn.16xlarge"], 1.0).is_some(), "some prices are built in");
        assert_eq!(cost(&["own", "unheard-of"], 1000.0), None, "one price is missing");
        assert_eq!(cost(&[], 1000.0), None);
        assert_eq!(cost(&["own"], 0.0), None);
        assert_eq!(prices.per_million_operations(&[None], 1.0), None);
        assert_eq!(prices.network_megabits_per_second("c7i.2xlarge"), Some(3125));
        assert_eq!(prices.network_megabits_per_second("own"), None);
    }

    #[test]
    fn the_user_s_table_overrides_the_built_in_prices_and_a_broken_one_is_refused() {
        let prices = Prices::with("instance_type,vcpu,usd_per_hour_us_east_1\nc7i.2xlarge,8,7.2\n").unwrap();
        let cost = prices.per_million_operations(&[Some("c7i.2xlarge".into())], 1000.0).unwrap();
        assert!((cost - 2.0).abs() < 1e-12, "{cost}");
        assert!(Prices::with("instance_type,usd_per_hour\nown,cheap\n").is_err());
        assert!(Prices::with("type,price\nown,1\n").is_err(), "a table without its columns");
    }
}
