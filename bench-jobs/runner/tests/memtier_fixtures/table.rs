//! What every recorded run is expected to be judged as.

use dragstrip_results::{
    result::FailureStep,
    result::FailureStep::{ErrorReplies, Interrupted, Output, Tool, Watchdog},
};

pub const OLD: &str = "1.4.0";
pub const NEW: &str = "2.3.0";
pub const BOTH: &[&str] = &[OLD, NEW];
const ONLY_OLD: &[&str] = &[OLD];
const ONLY_NEW: &[&str] = &[NEW];

/// Runs whose numbers may be used: the versions, and the runs.
#[rustfmt::skip]
pub const GOOD: &[(&[&str], &[&str])] = &[
    (BOTH, &[
        "a_write_only", "b0_load_all", "b2_read_only_half_miss", "b_read_only", "c2_write_pipeline10",
        "c_read_pipeline10", "d2_mixed_time", "d_mixed_default_hist", "g_hdr_prefix", "h_percentiles",
        "i1_cluster_mode", "i1b_cluster_time", "i1c_cluster_pipeline", "j2_arbitrary_hist", "j_arbitrary",
        "k12_right_auth", "l_client_stats", "n_expiry_datasize_range", "o_show_config", "p_outfile",
        "q_gaussian", "r2_wait", "t_tiny_n1",
    ]),
    (ONLY_NEW, &[
        "co1_rate200_freeze1s", "f2_rate_limit_n", "f3_rate_unreachable", "f_rate_limit",
        "i6_cluster_arbitrary", "k34_server_frozen_6s", "k63_reconnect_interval", "s2_uri", "s3_staircase",
        "s5_scan", "s6_zipf", "s7_line_breakdown", "s_resp3",
    ]),
];

/// Runs whose numbers must not be used: the versions, the run, the step at
/// which that shows, and what the message must say.
#[rustfmt::skip]
pub const BAD: &[(&[&str], &str, FailureStep, &[&str])] = &[
    (BOTH, "e_run_count3", Output, &["BEST RUN RESULTS", "leave out --run-count"]),
    (BOTH, "g2_hdr_run2", Output, &["leave out --run-count"]),
    (BOTH, "i2_cluster_server_plain_client", ErrorReplies, &["624 requests", "MOVED ×624"]),
    (BOTH, "i3_plain_server_cluster_mode", Watchdog, &["20.0 s", "no operation was ever", "cluster slot failed"]),
    (ONLY_OLD, "i4_cluster_master_killed", Tool, &["lost connections", "Connection refused ×", "connection dropped ×3"]),
    (ONLY_NEW, "i4_cluster_master_killed", Tool, &["started over", "Connection refused ×5"]),
    (ONLY_OLD, "i5_cluster_reshard", ErrorReplies, &["93 of 187487 requests", "ASK ×1", "MOVED ×92"]),
    (ONLY_NEW, "i5_cluster_reshard", ErrorReplies, &["51 of 182619 requests", "MOVED ×51"]),
    (ONLY_OLD, "i6_cluster_arbitrary", Tool, &["refused its arguments", "dose not support arbitrary"]),
    (ONLY_OLD, "k01_conn_refused_n", Tool, &["never got through", "Connection refused ×4"]),
    (ONLY_NEW, "k01_conn_refused_n", Tool, &["never got through", "Connection refused ×12"]),
    (ONLY_OLD, "k02_conn_refused_time", Tool, &["never got through", "Connection refused ×4"]),
    (ONLY_NEW, "k02_conn_refused_time", Tool, &["never got through", "Connection refused ×12"]),
    (BOTH, "k03_dns_failure", Tool, &["exit code 1", "no-such-host.invalid", "Name or service not known"]),
    (BOTH, "k04_bad_flag", Tool, &["refused its arguments (exit code 2)", "unrecognized option '--no-such-flag'"]),
    (BOTH, "k05_bad_ratio", Tool, &["refused its arguments", "ratio must be expressed as [0-n]:[0-n]"]),
    (BOTH, "k06_bad_pipeline", Tool, &["refused its arguments", "pipeline must be greater than zero"]),
    (BOTH, "k07_n_and_time", Tool, &["refused its arguments", "mutually exclusive"]),
    (BOTH, "k08_json_unwritable", Tool, &["signal 11 (SIGSEGV)", "/nonexistent/x.json: No such file or directory"]),
    (BOTH, "k10_wrong_auth", Watchdog, &["20.0 s", "authentication failed [-WRONGPASS invalid"]),
    (BOTH, "k11_no_auth_given", ErrorReplies, &["400 requests", "NOAUTH ×400"]),
    (BOTH, "k20_oom_noeviction", ErrorReplies, &["OOM ×232", "-OOM command not allowed when used memory"]),
    (BOTH, "k21_err_wrongtype", ErrorReplies, &["WRONGTYPE ×200"]),
    (BOTH, "k22_err_unknown_cmd", ErrorReplies, &["ERR ×200", "unknown command 'NOSUCHCMD'"]),
    (ONLY_OLD, "k23_maxclients", Tool, &["signal 13 (SIGPIPE)", "ERR ×1", "max number of clients reached"]),
    (ONLY_NEW, "k23_maxclients", Tool, &["signal 13 (SIGPIPE)", "ERR ×30", "max number of clients reached"]),
    (BOTH, "k30_sigint", Interrupted, &["memtier was stopped after 1.5 s"]),
    (BOTH, "k31_sigterm", Tool, &["signal 15 (SIGTERM)"]),
    (BOTH, "k32_sigkill", Tool, &["signal 9 (SIGKILL)"]),
    (BOTH, "k33_sigint_n_mode", Interrupted, &["memtier was stopped after 1.5 s"]),
    (ONLY_OLD, "k34_server_frozen_6s", Output, &["5737 replies in \"Sets\"", "only 5736 latencies", "beyond 1 s"]),
    (ONLY_OLD, "k35_client_kill_all", Tool, &["lost connections", "Connection reset by peer ×2", "connection dropped ×2"]),
    (ONLY_NEW, "k35_client_kill_all", Tool, &["started over", "Connection reset by peer ×1"]),
    (ONLY_OLD, "k40_server_killed", Tool, &["lost connections", "Connection reset by peer ×4"]),
    (ONLY_NEW, "k40_server_killed", Tool, &["started over", "Connection refused ×10"]),
    (ONLY_OLD, "k41_server_killed_n_mode", Tool, &["lost connections", "connection dropped ×3"]),
    (ONLY_NEW, "k41_server_killed_n_mode", Tool, &["started over", "Connection refused ×10"]),
    (ONLY_OLD, "k42_server_killed_restarted", Tool, &["lost connections", "Connection reset by peer ×4"]),
    (ONLY_NEW, "k42_server_killed_restarted", Tool, &["threw its numbers away and started over"]),
    (BOTH, "k43_server_frozen_forever", Watchdog, &["8.0 s", "no operation was answered in its last 5 progress"]),
    (BOTH, "k50_readonly_replica", ErrorReplies, &["READONLY ×100"]),
    (ONLY_NEW, "k60_reconnect_refused", Watchdog, &["no operation was ever answered", "Connection refused ×40"]),
    (ONLY_NEW, "k61_reconnect_killed_restarted", Tool, &["threw its numbers away and started over"]),
    (ONLY_NEW, "k62_reconnect_killed_forever", Watchdog, &["no operation was answered", "Connection refused ×72"]),
    (ONLY_NEW, "k64_double_sigint", Interrupted, &["memtier was stopped after 1.6 s"]),
    (ONLY_NEW, "k65_sigint_run_count3", Interrupted, &["memtier was stopped after 5.5 s"]),
    (ONLY_NEW, "k66_connect_blackhole_timeout1", Tool, &["never got through", "Connection timeout after 1 seconds ×6"]),
    (ONLY_NEW, "k67_connect_blackhole_notimeout", Watchdog, &["12.0 s", "no operation was ever answered"]),
    (BOTH, "m_mget", Tool, &["signal 6 (SIGABRT)", "multi get not implemented for redis yet!"]),
    (BOTH, "r_wait", Tool, &["refused its arguments", "num-slaves must be expressed"]),
    (ONLY_NEW, "s4_print_all_runs", Output, &["RUN #1 RESULTS", "leave out --run-count"]),
];
