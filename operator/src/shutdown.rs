//! The process's shutdown, for which several tasks can wait.

use futures::{Future, FutureExt, future::Shared};
use std::{io, pin::Pin};
use tokio::signal::unix::{SignalKind, signal};

pub type Shutdown = Shared<Pin<Box<dyn Future<Output = ()> + Send>>>;

pub fn shutdown_after(stop: impl Future<Output = ()> + Send + 'static) -> Shutdown {
    stop.boxed().shared()
}

pub fn on_signals() -> io::Result<Shutdown> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(shutdown_after(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }))
}
