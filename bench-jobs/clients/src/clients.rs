//! The client libraries: each is one file that knows everything about it, behind one [`link::Link`].

pub(crate) mod bb8_pool;
pub(crate) mod connect;
pub(crate) mod error;
mod fred_client;
pub(crate) mod link;
pub(crate) mod loss;
mod redis_client;
pub(crate) mod request;
