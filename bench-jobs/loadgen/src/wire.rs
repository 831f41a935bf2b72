//! The wire: connections and how they are made and secured, RESP both ways, and
//! which node of a cluster has which key.

pub(crate) mod cluster;
pub mod connect;
pub(crate) mod outgoing;
pub(crate) mod redirect;
pub(crate) mod scanner;

pub use scanner::{ReplyKind, ReplyScanner, ReplySink};
pub(crate) mod slots;
pub(crate) mod socket;
pub mod tls;
