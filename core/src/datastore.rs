//! A Datastore: its engine, its servers and what they need, whether the declaration can be built,
//! and whether the running server matches its declaration. Pure.

pub mod engines;
pub mod launch;
pub mod resources;
pub mod room;
pub mod server;
pub mod shape;
pub mod validate;
pub mod verify;
