//! The kinds of connection behind one face while they are made ready, on the
//! asynchronous event loop.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

use crate::wire::socket::{LoadSocket, Socket, TlsSocket};

/// A connection to a server.
#[derive(Debug)]
pub(crate) enum LoadStream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl LoadStream {
    /// The same for an event loop of one's own.
    pub(crate) fn into_socket(self) -> Result<LoadSocket, IntoSocketError> {
        let plain = |stream: io::Result<OwnedFd>| stream.map(Socket::new).map_err(IntoSocketError);
        Ok(match self {
            Self::Tcp(stream) => LoadSocket::Plain(plain(stream.into_std().map(Into::into))?),
            Self::Unix(stream) => LoadSocket::Plain(plain(stream.into_std().map(Into::into))?),
            Self::Tls(stream) => {
                let (stream, session) = stream.into_inner();
                let socket = plain(stream.into_std().map(Into::into))?;
                LoadSocket::Tls(Box::new(TlsSocket::new(socket, session)))
            }
        })
    }
}

/// The socket cannot be taken out of the asynchronous event loop.
#[derive(Debug, Error)]
#[error("cannot take the socket out of the event loop: {0}")]
pub(crate) struct IntoSocketError(#[source] io::Error);

impl AsyncRead for LoadStream {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(task, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(task, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(task, buffer),
        }
    }
}

impl AsyncWrite for LoadStream {
    #[inline]
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_write(task, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(task, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(task, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(task),
            Self::Unix(stream) => Pin::new(stream).poll_flush(task),
            Self::Tls(stream) => Pin::new(stream).poll_flush(task),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(task),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(task),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(task),
        }
    }
}
