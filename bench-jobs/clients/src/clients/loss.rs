//! Connections that a library lost without a request that would have said so.

use std::convert::Infallible;

use fred::error::{Error as FredError, ErrorKind};
use fred::types::ConnectHandle;
use redis::{PushInfo, PushKind, RedisError};
use tokio::sync::watch;

use crate::clients::error::LibraryError;

/// Why a connection was lost, in its library's words.
#[derive(Clone, Debug)]
pub(crate) enum Loss {
    Redis(RedisError),
    Fred(FredError),
}

impl From<Loss> for LibraryError {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::Redis(error) => Self::LoseRedis(error),
            Loss::Fred(error) => Self::LoseFred(error),
        }
    }
}

/// The first connection that was lost; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct LossWatch {
    first: watch::Sender<Option<Loss>>,
}

impl LossWatch {
    pub(crate) fn new() -> Self {
        Self { first: watch::Sender::new(None) }
    }

    pub(crate) fn note(&self, loss: Loss) {
        self.first.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(loss);
            is_first
        });
    }

    /// Completes when a connection is lost.
    pub(crate) async fn lost(&self) -> LibraryError {
        let mut seen = self.first.subscribe();
        let loss = seen.wait_for(Option::is_some).await.ok().and_then(|loss| loss.clone());
        match loss {
            Some(loss) => loss.into(),
            // The sender is borrowed here, so the channel stays open.
            None => std::future::pending().await,
        }
    }

    /// Takes what redis-rs says besides replies, and notes that a connection was lost.
    pub(crate) fn pushes(&self) -> impl Fn(PushInfo) -> Result<(), Infallible> + Send + Sync + 'static {
        let watch = self.clone();
        move |push| {
            if push.kind == PushKind::Disconnection {
                let closed = (redis::ErrorKind::Io, "the connection was closed");
                watch.note(Loss::Redis(closed.into()));
            }
            Ok(())
        }
    }

    /// Notes the end of a connection of fred's: requests that it had not sent yet
    /// may wait for ever.
    pub(crate) fn note_end_of(&self, connection: ConnectHandle) {
        let watch = self.clone();
        tokio::spawn(async move {
            let closed = || FredError::new(ErrorKind::IO, "the connection was closed");
            let error = match connection.await {
                Ok(Ok(())) | Err(_) => closed(),
                Ok(Err(error)) => error,
            };
            watch.note(Loss::Fred(error));
        });
    }
}
