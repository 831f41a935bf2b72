//! From a host name to addresses, without the C library's resolver: a static
//! program in an empty image has no name service modules to load. Touches
//! /etc/resolv.conf, /etc/hosts and the network.

use hickory_resolver::{TokioResolver, config::LookupIpStrategy, net::NetError};
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use tokio::time::timeout;

/// How long a look-up may take, search domains and repetitions included.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// A step of the look-up that failed.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// /etc/resolv.conf is missing or makes no sense.
    #[error("the resolver's configuration /etc/resolv.conf cannot be used: {0}")]
    Configuration(#[source] NetError),
    /// No answer from any name server.
    #[error("the name servers of /etc/resolv.conf do not answer within {} s", LOOKUP_TIMEOUT.as_secs())]
    Timeout,
    /// A negative answer.
    #[error("the name cannot be resolved: {0}")]
    Lookup(#[source] NetError),
    /// The name exists and has no address.
    #[error("the name has no address")]
    NoAddress,
}

/// The addresses of a host: an IP address is its own, a name is looked up with
/// the search domains and `ndots` of /etc/resolv.conf.
pub async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, ResolveError> {
    if let Some(address) = literal(host) {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let mut builder = TokioResolver::builder_tokio().map_err(ResolveError::Configuration)?;
    // One question is enough where there is an IPv4 address.
    builder.options_mut().ip_strategy = LookupIpStrategy::Ipv4thenIpv6;
    let resolver = builder.build().map_err(ResolveError::Configuration)?;
    let found = timeout(LOOKUP_TIMEOUT, resolver.lookup_ip(host)).await.map_err(|_| ResolveError::Timeout)?;
    let found = found.map_err(ResolveError::Lookup)?;
    let addresses: Vec<_> = found.iter().map(|address| SocketAddr::new(address, port)).collect();
    if addresses.is_empty() { Err(ResolveError::NoAddress) } else { Ok(addresses) }
}

fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_their_own_answer() {
        assert_eq!(literal("10.0.0.7"), "10.0.0.7".parse().ok());
        assert_eq!(literal("[::1]"), "::1".parse().ok());
        assert_eq!(literal("dragonfly.bench.svc"), None);
    }
}
