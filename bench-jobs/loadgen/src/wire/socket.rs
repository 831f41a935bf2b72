//! Connections under load: non-blocking sockets, plain or encrypted, for the generator's
//! own event loop.
//!
//! System calls go without the C library, whose wrappers check before and after each
//! whether the thread is cancelled.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Poll, ready};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConnection;

/// A non-blocking socket whose owner gets one event whenever bytes arrive.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: OwnedFd,
    /// A read took all there was; another one would be a wasted system call.
    drained: bool,
    /// The other side sends nothing more, which only a read after the last bytes shows.
    ended: bool,
}

impl Socket {
    fn new(stream: TcpStream) -> io::Result<Self> {
        Ok(Self { descriptor: stream.into_std()?.into(), drained: true, ended: false })
    }

    #[inline]
    fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        rustix::net::send(&self.descriptor, bytes, SendFlags::NOSIGNAL)
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        if self.drained {
            return Err(Errno::AGAIN);
        }
        let room = buffer.len();
        let received = rustix::net::recv(&self.descriptor, buffer, RecvFlags::empty());
        let attempt = received.map(|(length, _)| length);
        // Bytes that arrive after a read that left room cause a new event; an end caused one already.
        self.drained = match attempt {
            Err(Errno::AGAIN) => true,
            Ok(length) => length > 0 && length < room && !self.ended,
            Err(_) => false,
        };
        attempt
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(self.receive(buffer)?)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.send(bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct TlsSocket {
    socket: Socket,
    session: ClientConnection,
}

impl TlsSocket {
    fn write(&mut self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            // Takes nothing while what it encrypted before fills its buffer.
            let taken = self.session.writer().write(bytes)?;
            if taken > 0 || bytes.is_empty() {
                return Poll::Ready(Ok(taken));
            }
            ready!(self.flush())?;
        }
    }

    fn flush(&mut self) -> Poll<io::Result<()>> {
        while self.session.wants_write() {
            if let Err(error) = self.session.write_tls(&mut self.socket) {
                return if would_wait(&error) { Poll::Pending } else { Poll::Ready(Err(error)) };
            }
        }
        Poll::Ready(Ok(()))
    }

    fn read(&mut self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if would_wait(&error) => {}
                read => return Poll::Ready(read),
            }
            match self.session.read_tls(&mut self.socket) {
                Err(error) if would_wait(&error) => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
                Ok(0) => return Poll::Ready(Ok(0)),
                Ok(_) => {}
            }
            let processed = self.session.process_new_packets();
            // The next request also sends what the session itself answers, such as to a new key.
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }
}

fn would_wait(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// A connection under load. After `Pending` its owner returns on an event.
#[derive(Debug)]
pub(crate) enum LoadSocket {
    Plain(Socket),
    Tls(Box<TlsSocket>),
}

impl LoadSocket {
    /// Takes a connection out of the asynchronous runtime.
    pub(crate) fn plain(stream: TcpStream) -> io::Result<Self> {
        Ok(Self::Plain(Socket::new(stream)?))
    }

    pub(crate) fn encrypted(stream: TlsStream<TcpStream>) -> io::Result<Self> {
        let (stream, session) = stream.into_inner();
        Ok(Self::Tls(Box::new(TlsSocket { socket: Socket::new(stream)?, session })))
    }

    fn socket(&mut self) -> &mut Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &mut tls.socket,
        }
    }

    /// Notes an event on the socket; `ended` when the other side sends nothing more.
    #[inline]
    pub(crate) fn note_event(&mut self, ended: bool) {
        let socket = self.socket();
        socket.drained = false;
        socket.ended |= ended;
    }

    /// Whether written bytes may wait in the client until they are flushed.
    #[inline]
    pub(crate) fn buffers(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(socket) => attempted(socket.send(bytes)),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    #[inline]
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(socket) => attempted(socket.receive(buffer)),
            Self::Tls(tls) => tls.read(buffer),
        }
    }

    pub(crate) fn flush(&mut self) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

impl AsFd for LoadSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(socket) => socket.descriptor.as_fd(),
            Self::Tls(tls) => tls.socket.descriptor.as_fd(),
        }
    }
}

#[inline]
fn attempted(outcome: Result<usize, Errno>) -> Poll<io::Result<usize>> {
    match outcome {
        Err(Errno::AGAIN) => Poll::Pending,
        outcome => Poll::Ready(outcome.map_err(io::Error::from)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pair() -> (LoadSocket, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let socket = Socket { descriptor: ours.into(), drained: true, ended: false };
        (LoadSocket::Plain(socket), theirs)
    }

    #[test]
    fn an_end_that_comes_with_the_last_bytes_is_read_at_once() {
        let (mut socket, mut theirs) = pair();
        let mut buffer = [0; 64];
        theirs.write_all(b"last").unwrap();
        drop(theirs);
        socket.note_event(true);
        assert!(matches!(socket.read(&mut buffer), Poll::Ready(Ok(4))));
        assert!(matches!(socket.read(&mut buffer), Poll::Ready(Ok(0))), "no event repeats the end");
    }

    #[test]
    fn a_read_that_left_room_is_not_tried_again() {
        let (mut socket, mut theirs) = pair();
        let mut buffer = [0; 64];
        theirs.write_all(b"some").unwrap();
        socket.note_event(false);
        assert!(matches!(socket.read(&mut buffer), Poll::Ready(Ok(4))));
        theirs.write_all(b"more").unwrap();
        assert!(socket.read(&mut buffer).is_pending(), "the next event announces more");
    }
}
