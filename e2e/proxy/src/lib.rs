//! A proxy between the operator and the API server that injects faults: a request fails, its answer is
//! lost, a watch breaks or lags, a list is old. The operator runs unchanged, with a kubeconfig whose
//! server is the proxy; the proxy has the credentials. Touches the network and the clock.

pub mod engine;
pub mod fault;
pub mod proxy;
pub mod request;
mod watch;
