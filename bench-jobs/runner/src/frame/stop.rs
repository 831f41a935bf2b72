//! The request to stop: SIGTERM from Kubernetes, SIGINT from a terminal. As PID 1
//! the process would ignore both without a handler.

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// A request to stop this process. It is never withdrawn.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Starts to listen for SIGTERM and SIGINT. Must be called within a runtime.
    pub fn listen() -> std::io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (sender, receiver) = watch::channel(false);
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            sender.send_replace(true);
            // A dropped sender would look like a request to those who wait for one.
            sender.closed().await;
        });
        Ok(Self(receiver))
    }

    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    pub async fn requested(&self) {
        let mut receiver = self.0.clone();
        // An error means that the listener is gone, and the runtime with it.
        let _ = receiver.wait_for(|requested| *requested).await;
    }
}
