//! Exit codes of the process, which are part of its interface. Those of failures are
//! [`crate::counts::report::FailureKind`]'s.

/// The run was completed and every reply was a success.
pub const COMPLETED: u8 = 0;
/// The specification or the environment is not usable; nothing was sent.
pub const USAGE: u8 = 2;
/// The run was completed, but the server answered some requests with errors.
pub const ERROR_REPLIES: u8 = 10;
pub const REPORT_NOT_WRITTEN: u8 = 11;
/// Keys were only verified, and some of them do not exist.
pub const KEYS_MISSING: u8 = 13;
/// Ended by SIGINT; the partial result was written.
pub const INTERRUPTED: u8 = 130;
/// Ended by SIGTERM; the partial result was written.
pub const TERMINATED: u8 = 143;

pub(crate) const HELP: &str = "\
Exit codes:
    0  completed, every reply was a success
    2  unusable specification or environment, nothing was sent
    3  host name not resolved
    4  connection refused, unreachable or not made within connectTimeout
    5  the server refused the credentials, or wants some
    6  handshake failed (protocol version, TLS, slots of a cluster)
    7  connection lost during the run
    8  no reply within responseTimeout
    9  the server sent something that is not a valid reply
   10  completed, but some replies were errors
   11  the report could not be written
   12  the client could not do its work (see the message)
   13  task VerifyKeys found that some keys do not exist
  130  ended by SIGINT, partial report written
  143  ended by SIGTERM, partial report written

With reportFile the report is written in all cases but 2 and 11; its \"status\" is
\"completed\", \"interrupted\" (partial) or \"failed\". Progress lines on standard error
have the form
    progress elapsed_seconds=3.000 operations=457120 operations_per_second=152345 errors=0
where operations and errors are totals and the rate is that of the interval. With
progressDetail they go on with
    bytes=91423 connections=50 latency_seconds=27.4 latency_counts=0,0,17,...
where bytes are those of both directions, and each count is of latencies of at most
20, 32, 50, 80, 125, 200, 320, 500, 800 us, 1.25, 2, 3.2, 5, 8, 12.5, 20, 32, 50, 80,
125, 200, 320, 500 ms and 1 s, and of the rest.
The latency of an operation lasts from just before its batch is handed to the kernel,
in an open loop from its intended time, until the read that brought the end of its
reply returned. An open loop skips nothing: it sends what is due while the server
stalls as soon as the connection takes it, without a limit of requests in flight.";
