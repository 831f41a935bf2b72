//! What users rely on, end to end: a real apiserver, scheduler, kubelets,
//! servers and load.

mod common;
mod datastore;
mod faults;
mod install;
mod run;
mod suite;
