//! From a host name to addresses, without the C library's resolver: a static
//! program in an empty image has no name service modules to load. Touches
//! /etc/resolv.conf, /etc/hosts and the network.

use hickory_resolver::{TokioResolver, config::LookupIpStrategy, net::NetError};
use ipnet::IpNet;
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use tokio::time::timeout;

/// How long a look-up may take, search domains and repetitions included.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error("cannot use the resolver's configuration /etc/resolv.conf: {0}")]
    Configuration(#[source] NetError),
    #[error("the name servers of /etc/resolv.conf do not answer within {} s", LOOKUP_TIMEOUT.as_secs())]
    Timeout,
    #[error("cannot resolve the name: {0}")]
    Lookup(#[source] NetError),
    #[error("the name has no address")]
    NoAddress,
    #[error(
        "its address {0} is in {1}, which this cluster's policy blocks for benchmarks (policy.external.blockedNetworks of Dragstrip's chart)"
    )]
    Blocked(IpAddr, IpNet),
}

/// The addresses of a host, none of them in a `blocked` network: an IP address is its own
/// result, a name is looked up with the search domains and `ndots` of /etc/resolv.conf.
pub async fn resolve(host: &str, port: u16, blocked: &[IpNet]) -> Result<Vec<SocketAddr>, ResolveError> {
    let addresses = match literal(host) {
        Some(address) => vec![SocketAddr::new(address, port)],
        None => look_up(host, port).await?,
    };
    unblocked(addresses, blocked)
}

async fn look_up(host: &str, port: u16) -> Result<Vec<SocketAddr>, ResolveError> {
    let mut builder = TokioResolver::builder_tokio().map_err(ResolveError::Configuration)?;
    // One query is enough where there is an IPv4 address.
    builder.options_mut().ip_strategy = LookupIpStrategy::Ipv4thenIpv6;
    let resolver = builder.build().map_err(ResolveError::Configuration)?;
    let found = timeout(LOOKUP_TIMEOUT, resolver.lookup_ip(host)).await.map_err(|_| ResolveError::Timeout)?;
    let found = found.map_err(ResolveError::Lookup)?;
    Ok(found.iter().map(|address| SocketAddr::new(address, port)).collect())
}

/// `addresses`, unless one is in a blocked network: a later look-up may return it.
fn unblocked(addresses: Vec<SocketAddr>, blocked: &[IpNet]) -> Result<Vec<SocketAddr>, ResolveError> {
    let within = |address: IpAddr| blocked.iter().find(|network| network.contains(&address));
    let found = addresses.iter().find_map(|address| {
        // ::ffff:169.254.169.254 is 169.254.169.254.
        let ip = address.ip().to_canonical();
        Some((ip, *within(ip)?))
    });
    found.map_or(Ok(addresses), |(ip, network)| Err(ResolveError::Blocked(ip, network)))
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

    #[test]
    fn one_blocked_address_of_a_name_is_enough_to_refuse_it() {
        let blocked: Vec<IpNet> = ["169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128"]
            .map(|network| network.parse().unwrap())
            .into();
        let check = |addresses: &[&str]| {
            let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
            unblocked(addresses, &blocked).map_err(|error| error.to_string())
        };
        assert!(check(&["10.0.0.7:6379", "[fd00:ec2::7]:6379"]).is_ok());
        for refused in [
            "169.254.169.254:80",
            "[::ffff:169.254.169.254]:80",
            "[::ffff:a9fe:a9fe]:80",
            "[fe80::1]:80",
            "[fd00:ec2::254]:80",
        ] {
            let message = check(&["10.0.0.7:80", refused]).unwrap_err();
            assert!(message.contains("policy blocks"), "{refused}: {message}");
        }
    }
}
