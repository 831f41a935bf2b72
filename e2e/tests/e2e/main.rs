//! What users rely on, end to end: a real apiserver, scheduler, kubelets,
//! servers and load.

mod admission;
mod bad_input;
mod bullmq;
mod clients;
mod common;
mod counters;
mod endings;
mod engines;
mod evidence;
mod exec;
mod external;
mod faults;
mod held_up;
mod identity;
mod loadgen;
mod memtier;
mod operator_restarts;
mod placement;
mod preparation;
mod queue;
mod quickstart;
mod refusals;
mod search;
mod seccomp;
mod secrets;
mod server_trouble;
mod strangers;
mod timeouts;
mod topologies;
mod turns;
mod two_operators;
mod undecodable;
mod upgrade;
mod verdicts;
mod verdicts_made;
