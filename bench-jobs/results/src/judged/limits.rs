//! Every limit of the checks, with its reason. docs/verdicts.md says more of those that can be set.

/// Start skew: one second of a load of ten is a tenth of the time without all clients.
pub const START_SKEW_SECONDS: f64 = 1.0;
/// Common window as a share of the longest client's: counts are of all of it, rates of the common part.
pub const OVERLAP: f64 = 0.95;
/// Shortest window: below it, starting and stopping are a visible part.
pub const WINDOW_SECONDS: f64 = 3.0;
/// Share of the shortest window that suffices: a load of exactly that duration has its last reply a little earlier.
pub const OF_LIMIT: f64 = 0.99;
/// Share of its declared duration that a load must have run.
pub const OF_DECLARED: f64 = 0.95;
/// Change of throughput from begin to end, as a share of its mean.
pub const TREND: f64 = 0.1;
/// Chance below which a trend is not noise.
pub const TREND_SIGNIFICANCE: f64 = 0.01;
/// Share of the usual operations below which a second is stalled.
pub const STALL: f64 = 0.5;
/// Usual operations in a second from which on half of them is not chance: five standard deviations
/// of a Poisson process.
pub const STALL_OPERATIONS: f64 = 100.0;
/// Complete seconds from which on there is a usual number of operations.
pub const STALL_SECONDS: usize = 3;
/// Distance of a part's level from that of the rest, in standard errors that count how much
/// neighbouring seconds resemble each other, above which it is not noise (docs/statistics.md).
pub const LEVEL_SIGNIFICANCE: f64 = 5.0;
/// Complete seconds from which on a trend can be distinguished from noise.
pub const TREND_SECONDS: usize = 8;
/// Distance of throughput times latency from the requests in flight (Little's law), as a share.
pub const LITTLES_LAW: f64 = 0.1;
/// 99th percentile of how late an open loop's requests are sent, as a share of that of their latency,
/// which contains it: more than this would move it by more than repetitions usually differ.
pub const SCHEDULE_LAG: f64 = 0.2;
/// Share of reads that must find their key: below it, the misses were measured.
pub const FOUND: f64 = 0.01;
/// Share of an open loop's requests that the server must have answered in time.
pub const ANSWERED: f64 = 0.995;
/// Share of the time from which on a thread is used up: waking and going to sleep take the rest.
pub const BUSY: f64 = 0.85;
/// Difference of such shares up to which neither side is the limit alone.
pub const EQUALLY_BUSY: f64 = 0.05;
/// Share of the time of a CPU that is used up from which on interrupts are most of it: the network's work
/// then has no CPU left, whatever the threads look like.
pub const INTERRUPTED: f64 = 0.5;
/// Share of the time from which on a load thread waits too long for a CPU. To wake up takes about a
/// microsecond of it, and no thread wakes up 100,000 times a second: other threads are on its CPUs. Each
/// wait is up to a scheduler's slice of some milliseconds, and a reply that arrives meanwhile is late.
pub const WAITING: f64 = 0.1;
/// Share of the window in which a CPU limit holds a container back: the kernel stops it for up to
/// 100 ms at a time, which shows in percentiles first.
pub const THROTTLED: f64 = 0.01;
/// Share of the time in which a thread of the server waits for a CPU on the mean CPU that it uses. It
/// executes nothing meanwhile, as a client that waits reads nothing: the same limit.
pub const SERVER_PRESSURE: f64 = WAITING;
/// Share of a machine's CPU time that the hypervisor gives to others.
pub const STEAL: f64 = 0.02;
/// Share of a machine's CPUs that neither clients nor servers of the run use.
pub const FOREIGN_LOAD: f64 = 0.1;
/// Page faults per second for which a disk is read.
pub const PAGE_FAULTS_PER_SECOND: f64 = 10.0;
/// Coefficient of variation of repetitions above which their mean says little.
pub const VARIANCE: f64 = 0.05;
/// Repetitions from which on their spread says anything.
pub const LEAST_REPETITIONS: u32 = 3;

/// Gain of throughput with twice the connections that shows room: a server at its limit may do a little
/// more for larger batches.
pub const GAIN: f64 = 0.05;
/// Coefficients of variation of the repetitions that such a gain must exceed as well (docs/statistics.md).
pub const GAIN_DEVIATIONS: f64 = 3.0;

/// Share of the time from which on a server's threads were busy enough to say what a busy second is worth.
pub const LEAST_BUSY: f64 = 0.01;
/// Share of its CPU limit from which on a container is at it.
pub const AT_CPU_LIMIT: f64 = 0.9;
/// Share of the time for which its CPU limit holds a container back that is at it.
pub const HELD_BACK: f64 = 0.05;
/// Share of the mean latency from which on the network is most of it.
pub const MOSTLY_NETWORK: f64 = 0.5;
/// Share of the mean latency up to which a handshake waited in the same queue as the requests: in a full one behind all
/// n that are in flight, for (n + 1) / n of their time.
pub const LONGEST_HANDSHAKE: f64 = 1.25;
/// Share of a link's rate from which on it is full: frames need the rest, and bursts leave gaps.
pub const LINK: f64 = 0.9;
/// Share of TCP segments sent again from which on the network loses too many.
pub const RETRANSMITTED: f64 = 0.01;
/// Share of memtier's rate limit from which on the limit is what limits: it sends in small steps.
pub const AT_MEMTIERS_RATE: f64 = 0.95;

/// Difference between the server's count of a command and the tool's, as a share.
pub const COUNT_DIFFERENCE: f64 = 0.001;
/// The same if the server counts only all commands together.
pub const TOTAL_DIFFERENCE: f64 = 0.01;
/// Commands besides the load's that such a total may hold: handshakes, probes, INFO.
pub const TOTAL_SLACK: u64 = 1000;
/// Commands of others, as a share of the load's.
pub const FOREIGN_COMMANDS: f64 = 0.01;
/// Error replies to one connection's introduction, if the server does not name failed commands.
pub const REFUSED_PER_CONNECTION: u64 = 4;
