//! Redirections: the replies of a cluster's node that does not have the key. Pure.

/// Where a request must go instead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Direction {
    pub(crate) slot: usize,
    /// `host:port`; the host is empty when it is that of the node that redirected.
    pub(crate) address: String,
    /// For this request only; the slot has not moved yet.
    pub(crate) ask: bool,
}

impl Direction {
    /// Reads an error reply such as `MOVED 3999 127.0.0.1:6381`.
    pub(crate) fn read(message: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(message).ok()?.split(' ');
        let ask = match words.next()? {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let slot = words.next()?.parse().ok()?;
        let address = words.next()?;
        // Only these replies have IPv6 hosts without brackets.
        let (host, port) = address.rsplit_once(':')?;
        let bracketed =
            if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.into() };
        Some(Self { slot, address: format!("{bracketed}:{port}"), ask })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_are_read_and_other_errors_are_not() {
        let direction = |slot, address: &str, ask| Some(Direction { slot, address: address.into(), ask });
        assert_eq!(Direction::read(b"MOVED 3999 127.0.0.1:6381"), direction(3999, "127.0.0.1:6381", false));
        assert_eq!(Direction::read(b"ASK 1 ::1:7000"), direction(1, "[::1]:7000", true));
        assert_eq!(Direction::read(b"MOVED 5 :7000"), direction(5, ":7000", false));
        for other in ["MOVED", "MOVED x h:1", "MOVED 1 nowhere", "ERR MOVED 1 h:1", "CLUSTERDOWN", ""] {
            assert_eq!(Direction::read(other.as_bytes()), None, "{other}");
        }
    }
}
