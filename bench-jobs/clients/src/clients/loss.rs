//! Notes connections that a library lost without a request that would have failed.

use std::convert::Infallible;

use fred::error::{Error as FredError, ErrorKind};
use fred::types::ConnectHandle;
use redis::{PushInfo, PushKind};
use tokio::sync::mpsc::UnboundedSender;

use crate::clients::error::LibraryError;

/// Where lost connections are noted; the first one ends the run.
#[derive(Clone, Debug)]
pub(crate) struct Losses(pub(crate) UnboundedSender<LibraryError>);

impl Losses {
    pub(crate) fn note(&self, error: LibraryError) {
        // A run that has ended needs no second reason.
        let _ = self.0.send(error);
    }

    /// Takes what redis-rs reports besides replies, and notes that a connection was lost.
    pub(crate) fn pushes(&self) -> impl Fn(PushInfo) -> Result<(), Infallible> + Send + Sync + 'static {
        let losses = self.clone();
        move |push| {
            if push.kind == PushKind::Disconnection {
                let closed = (redis::ErrorKind::Io, "the connection was closed");
                losses.note(LibraryError::LoseRedis(closed.into()));
            }
            Ok(())
        }
    }

    /// Notes the end of a connection of fred's, which never answers its unsent requests.
    pub(crate) fn note_end_of(&self, connection: ConnectHandle) {
        let losses = self.clone();
        tokio::spawn(async move {
            let error = match connection.await {
                Ok(Err(error)) => error,
                Ok(Ok(())) | Err(_) => FredError::new(ErrorKind::IO, "the connection was closed"),
            };
            losses.note(LibraryError::LoseFred(error));
        });
    }
}
