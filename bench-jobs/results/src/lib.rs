//! What a result is, for all parts of Dragstrip that make, carry, store or read one, in the order
//! in which it comes about: one process, server or machine [measures](measured), pods and
//! repetitions collect that in a [`result`], checks [judge](judged) it, and ConfigMaps [store](stored) it.
//! [`protocol`] is the language of runners, observers and the operator.
//!
//! Pure: no client, no clock, no environment, no file.

pub mod error_chain;
pub mod judged;
pub mod measured;
pub mod protocol;
pub mod ranges;
pub mod result;
pub mod stored;

pub use judged::{commands, complaints, confirmation, counters, schedule, thresholds, verdict};
pub use measured::{histogram, hit_series, latency_series, live, memory, observed, statistics, usage};
pub use protocol::signing;
pub use result::search;
