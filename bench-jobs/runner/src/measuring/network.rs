//! The traffic of the pod's network. Touches /proc.

use dragstrip_results::usage::NetworkUsage;

/// The interface whose traffic stays in the pod.
const LOOPBACK: &str = "lo";

/// What all interfaces but the loopback sent and received since they were made, and what
/// TCP did; `None` where the kernel does not report it.
pub fn usage() -> Option<NetworkUsage> {
    let mut devices = procfs::net::dev_status().ok()?;
    devices.remove(LOOPBACK);
    let segments = procfs::net::snmp().ok();
    Some(NetworkUsage {
        received_bytes: devices.values().map(|device| device.recv_bytes).sum(),
        sent_bytes: devices.values().map(|device| device.sent_bytes).sum(),
        sent_segments: segments.as_ref().map_or(0, |tcp| tcp.tcp_out_segs),
        retransmitted_segments: segments.as_ref().map_or(0, |tcp| tcp.tcp_retrans_segs),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Write as _,
        net::{TcpListener, TcpStream},
    };

    #[test]
    fn segments_are_counted_and_bytes_over_the_loopback_are_not() {
        let before = usage().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let megabytes = 4 << 20;
        std::thread::spawn(move || std::io::copy(&mut listener.accept().unwrap().0, &mut std::io::sink()));
        stream.write_all(&vec![0; megabytes]).unwrap();
        let after = usage().unwrap();
        assert!(after.sent_segments > before.sent_segments, "{before:?} {after:?}");
        assert!(after.sent_bytes - before.sent_bytes < megabytes as u64, "{before:?} {after:?}");
    }
}
