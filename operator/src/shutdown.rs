//! The end of the process.

use futures::{Future, future::Shared};
use std::pin::Pin;

/// A shutdown that several can wait for.
pub type Shutdown = Shared<Pin<Box<dyn Future<Output = ()> + Send>>>;
