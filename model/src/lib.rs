//! A model of turns, Leases and the start line. The product's own rules decide; the model supplies an
//! API server in memory, Kubernetes, users, and operators that crash between any two requests and
//! whose watches lag. stateright explores all that may happen, in any sequence. Touches nothing.

pub mod calm;
pub mod checks;
pub mod decision;
pub mod kubernetes;
pub mod objects;
pub mod operator;
pub mod scenario;
pub mod turns;
pub mod world;
