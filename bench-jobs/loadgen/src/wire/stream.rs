//! The kinds of connection behind one face, without indirection on the hot
//! path: as the asynchronous event loop has them, and as plain sockets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// Attempts to move bytes that never wait. After `Pending` whoever drives the
/// connection comes back when it is worth another attempt.
pub(crate) trait Wire {
    /// Whether written bytes may wait in the client until they are flushed.
    fn buffers(&self) -> bool;
    fn write(&mut self, bytes: &[u8]) -> Poll<io::Result<usize>>;
    fn read(&mut self, buffer: &mut [u8]) -> Poll<io::Result<usize>>;
    fn flush(&mut self) -> Poll<io::Result<()>>;
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) enum LoadStream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl LoadStream {
    /// The socket alone, for an event loop of one's own; an encrypted
    /// connection is more than a socket and stays what it is.
    pub(crate) fn into_socket(self) -> Result<Socket, IntoSocketError> {
        let descriptor: io::Result<OwnedFd> = match self {
            Self::Tcp(stream) => stream.into_std().map(Into::into),
            Self::Unix(stream) => stream.into_std().map(Into::into),
            Self::Tls(_) => return Err(IntoSocketError::Encrypted),
        };
        Ok(Socket { descriptor: descriptor.map_err(IntoSocketError::Detach)?, drained: true })
    }

    /// Whether [`Self::into_socket`] can succeed.
    pub(crate) fn is_plain(&self) -> bool {
        !matches!(self, Self::Tls(_))
    }
}

/// A connection cannot be had as a plain socket.
#[derive(Debug, Error)]
pub(crate) enum IntoSocketError {
    #[error("the connection is encrypted")]
    Encrypted,
    #[error("cannot take the socket out of the event loop: {0}")]
    Detach(#[source] io::Error),
}

/// A connection while its task is polled: the task is woken after `Pending`.
#[derive(Debug)]
pub(crate) struct Polled<'a, 'task> {
    pub(crate) stream: &'a mut LoadStream,
    pub(crate) task: &'a mut Context<'task>,
}

impl Wire for Polled<'_, '_> {
    #[inline]
    fn buffers(&self) -> bool {
        matches!(self.stream, LoadStream::Tls(_))
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // An attempt without the task is cheaper and nearly always enough.
        let attempt = match &*self.stream {
            LoadStream::Tcp(stream) => stream.try_write(bytes),
            LoadStream::Unix(stream) => stream.try_write(bytes),
            LoadStream::Tls(_) => Err(io::ErrorKind::WouldBlock.into()),
        };
        match attempt {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Pin::new(&mut *self.stream).poll_write(self.task, bytes)
            }
            attempt => Poll::Ready(attempt),
        }
    }

    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut read = ReadBuf::new(buffer);
        ready!(Pin::new(&mut *self.stream).poll_read(self.task, &mut read))?;
        Poll::Ready(Ok(read.filled().len()))
    }

    fn flush(&mut self) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_flush(self.task)
    }
}

/// A non-blocking socket whose owner is told, once, whenever bytes arrive.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: OwnedFd,
    /// A read took all there was; another one would be a system call for nothing.
    drained: bool,
}

impl Socket {
    /// Something has happened on the socket.
    #[inline]
    pub(crate) fn note_event(&mut self) {
        self.drained = false;
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// System calls without the C library, whose wrappers look for a cancellation
/// of the thread before and after each.
impl Wire for Socket {
    #[inline]
    fn buffers(&self) -> bool {
        false
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        attempted(rustix::net::send(&self.descriptor, bytes, SendFlags::NOSIGNAL))
    }

    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.drained {
            return Poll::Pending;
        }
        let room = buffer.len();
        let received = rustix::net::recv(&self.descriptor, buffer, RecvFlags::empty());
        let attempt = attempted(received.map(|(length, _)| length));
        // What arrives after a read that left room is told anew.
        self.drained = match attempt {
            Poll::Pending => true,
            Poll::Ready(Ok(length)) => length > 0 && length < room,
            Poll::Ready(Err(_)) => false,
        };
        attempt
    }

    fn flush(&mut self) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[inline]
fn attempted(outcome: Result<usize, Errno>) -> Poll<io::Result<usize>> {
    match outcome {
        Err(Errno::AGAIN) => Poll::Pending,
        outcome => Poll::Ready(outcome.map_err(io::Error::from)),
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
