//! The three kinds of connection behind one face, without indirection on the
//! hot path.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// A connection to a server.
#[derive(Debug)]
pub(crate) enum LoadStream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl LoadStream {
    /// Whether written bytes may wait in the client until they are flushed.
    #[inline]
    pub(crate) fn buffers(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Writes what the kernel takes at once. Cheaper than polling, but nobody is
    /// woken after `WouldBlock`, which is what an encrypted connection always says.
    #[inline]
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
            Self::Tls(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

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
