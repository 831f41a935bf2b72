//! What an installation offers: the chart, rights, policies, upgrades, and the command line.

mod admission;
mod chart;
pub mod cli;
mod openshift;
mod permissions;
mod releases;
mod secrets;
mod tenants;
mod upgrade;
