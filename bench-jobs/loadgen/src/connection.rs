//! The closed loop of one connection: write a batch, await all its replies,
//! repeat. Per batch it makes one write and as many reads as the network needs.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use crate::follow::Follower;
use crate::link::{Link, LinkParts, LoadError, ThreadContext};
use crate::recorder::Origin;
use crate::replies::Flight;

/// What is left to do in the measured window.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Remaining {
    Requests(u64),
    For(Duration),
}

/// A connection in a closed loop.
#[derive(Debug)]
pub(crate) struct LoadConnection {
    link: Link,
    follower: Option<Follower>,
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
        follower: Option<Follower>,
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
        Self { link, follower, pipeline, remaining, deadline, measuring: false }
    }

    /// Runs the whole load of this connection.
    pub(crate) async fn run(mut self) -> Result<(), LoadError> {
        if matches!(self.remaining, Remaining::Requests(0)) {
            return Ok(());
        }
        while !self.link.context.stop.get() {
            let measured = self.link.last_arrival >= self.link.context.measured_from;
            let size = if measured { self.next_batch_size() } else { self.pipeline };
            if size == 0 {
                break;
            }
            poll_fn(|task| Poll::Ready(self.send_batch(task, size, measured))).await?;
            poll_fn(|task| self.poll_batch(task)).await?;
            self.link.set_waiting(None);
            if let Some(follower) = &mut self.follower {
                follower.follow(&mut self.link).await?;
            }
        }
        Ok(())
    }

    fn next_batch_size(&mut self) -> usize {
        match &mut self.remaining {
            Remaining::Requests(left) => {
                let size = usize::try_from(*left).map_or(self.pipeline, |left| left.min(self.pipeline));
                *left -= size as u64;
                size
            }
            Remaining::For(_) if self.link.last_arrival >= self.deadline => 0,
            Remaining::For(_) => self.pipeline,
        }
    }

    fn send_batch(&mut self, task: &mut Context<'_>, size: usize, measured: bool) -> Result<(), LoadError> {
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
            link.send(task, outgoing)
        })
    }

    /// Completes when every reply of the batch has arrived. Reads go on while
    /// the rest of a large batch waits to be written: a server that stops
    /// reading until its replies are taken would otherwise never go on.
    fn poll_batch(&mut self, task: &mut Context<'_>) -> Poll<Result<(), LoadError>> {
        loop {
            if self.link.has_unsent() {
                self.link.poll_unsent(task)?;
            }
            if self.link.expected.outstanding == 0 {
                return Poll::Ready(Ok(()));
            }
            ready!(self.link.poll_replies(task))?;
        }
    }
}
