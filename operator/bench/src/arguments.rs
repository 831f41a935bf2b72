//! Where a program finds the operator, and the cluster of testbed/without-kubelets.

use clap::Args;
use std::path::PathBuf;

/// The operator and its cluster.
#[derive(Debug, Clone, Args)]
pub struct Ground {
    /// The operator's program.
    #[arg(long)]
    pub operator: PathBuf,
    /// Its kubeconfig.
    #[arg(long, env = "KUBECONFIG")]
    pub kubeconfig: PathBuf,
    /// The kubeconfig of this program, without rate limits.
    #[arg(long, env = "KUBECONFIG_FAST")]
    pub fast_kubeconfig: PathBuf,
    /// The file that serves as every container's log.
    #[arg(long, env = "POD_LOG")]
    pub pod_log: PathBuf,
}
