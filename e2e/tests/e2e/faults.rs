//! Faults of nodes, servers, the operator and the apiserver.

mod edited_results;
mod killed_server;
mod operator_restarts;
mod outages;
mod two_operators;
mod undecodable;
