//! What one process, server or machine measures: operations with their latencies, counters,
//! CPU, memory, and the statistics of such figures.

pub mod histogram;
pub mod hit_series;
pub mod latency_series;
pub mod live;
pub mod memory;
pub mod observed;
pub mod operation;
pub mod statistics;
pub mod usage;
