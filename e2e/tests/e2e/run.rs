//! Runs: from the manifest to the verdict.

mod apiserver_writes;
mod bad_input;
mod clients;
mod confirm;
mod endings;
mod external;
mod held_up;
mod identity;
mod preparation;
mod queue;
mod quickstart;
mod refusals;
mod search;
mod timeouts;
mod tool;
mod turns;
mod verdict;
