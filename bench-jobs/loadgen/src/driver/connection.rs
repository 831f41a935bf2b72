//! The closed loop of one connection: write a batch, await all its replies,
//! repeat. Per batch it makes one write and as many reads as the network needs.

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::counts::recorder::Origin;
use crate::counts::replies::Flight;
use crate::driver::link::{Link, LinkParts, LoadError, ThreadContext};
use crate::wire::stream::Wire;

/// What is left to do in the measured window.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Remaining {
    Requests(u64),
    For(Duration),
}

/// Where a connection stands when it can go no further.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Standing {
    /// It waits for its socket.
    Waiting,
    /// Some of its requests have to be sent elsewhere.
    Redirected,
    Done,
}

/// A connection in a closed loop.
#[derive(Debug)]
pub(crate) struct LoadConnection {
    pub(crate) link: Link,
    pipeline: usize,
    remaining: Remaining,
    /// When a load of limited time ends.
    deadline: Instant,
    /// Whether it has begun to measure.
    measuring: bool,
}

impl LoadConnection {
    pub(crate) fn new(
        parts: LinkParts,
        context: Rc<ThreadContext>,
        pipeline: usize,
        remaining: Remaining,
        origin: Instant,
    ) -> Self {
        let flight = Flight::Batch(Origin { instant: origin, measured: false });
        let deadline = match remaining {
            Remaining::For(duration) => context.measured_from + duration,
            Remaining::Requests(_) => context.measured_from,
        };
        let link = Link::new(parts, context, flight, origin);
        Self { link, pipeline, remaining, deadline, measuring: false }
    }

    /// Goes on as far as is possible without waiting. Reads go on while the rest
    /// of a large batch waits to be written: a server that stops reading until
    /// its replies are taken would otherwise never go on.
    #[inline]
    pub(crate) fn step(&mut self, wire: &mut impl Wire) -> Result<Standing, LoadError> {
        loop {
            if self.link.has_unsent() {
                self.link.send_unsent(wire)?;
            }
            if self.link.expected.outstanding > 0 {
                if self.link.receive(wire)? {
                    continue;
                }
                return Ok(Standing::Waiting);
            }
            if self.link.has_redirected() {
                return Ok(Standing::Redirected);
            }
            let measured = self.link.last_arrival >= self.link.context.measured_from;
            let size = self.next_batch_size(measured);
            if size == 0 || self.link.context.stop.get() {
                return Ok(Standing::Done);
            }
            self.send_batch(wire, size, measured)?;
        }
    }

    #[inline]
    fn next_batch_size(&mut self, measured: bool) -> usize {
        match &mut self.remaining {
            Remaining::Requests(0) => 0,
            _ if !measured => self.pipeline,
            Remaining::Requests(left) => {
                let size = usize::try_from(*left).map_or(self.pipeline, |left| left.min(self.pipeline));
                *left -= size as u64;
                size
            }
            Remaining::For(_) if self.link.last_arrival >= self.deadline => 0,
            Remaining::For(_) => self.pipeline,
        }
    }

    #[inline]
    fn send_batch(&mut self, wire: &mut impl Wire, size: usize, measured: bool) -> Result<(), LoadError> {
        let begins = measured && !std::mem::replace(&mut self.measuring, measured);
        self.link.with_write_buffer(|link, outgoing| {
            let context = Rc::clone(&link.context);
            let mut recorder = context.recorder.borrow_mut();
            link.write_many(outgoing, &mut recorder, measured, size as u64)?;
            let now = Instant::now();
            link.flight = Flight::Batch(Origin { instant: now, measured });
            link.set_waiting(Some(now));
            if begins {
                recorder.note_first_send(now);
            }
            drop(recorder);
            link.send(wire, outgoing)
        })
    }
}
