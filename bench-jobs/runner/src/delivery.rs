//! Publishes the work: over HTTP while it runs, as a result at its end.

pub mod agent;
pub mod deliver;
pub mod exposition;
pub mod http;
pub mod metrics;
pub mod state;
