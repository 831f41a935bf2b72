//! Requests on their way to the kernel.
//!
//! Small bytes are copied together; a large value is only referred to, so that
//! connections which all send large values share one copy of their bytes.

use std::ops::Range;

/// Values from this size on are referred to instead of copied.
pub(crate) const SHARED_VALUE_BYTES: usize = 16 * 1024;

/// A range of the shared block that comes after `at` bytes of the own ones.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Splice {
    at: usize,
    range: Range<usize>,
}

/// Bytes to be sent, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outgoing {
    pub(crate) bytes: Vec<u8>,
    splices: Vec<Splice>,
}

/// A place in an [`Outgoing`]: how much of it has been sent, or where a part of it begins.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Cursor {
    bytes: usize,
    splice: usize,
    within: usize,
}

impl Outgoing {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.splices.clear();
    }

    /// Refers to `range` of the shared block.
    pub(crate) fn splice(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.splices.push(Splice { at: self.bytes.len(), range });
        }
    }

    /// The place after everything so far.
    pub(crate) fn end(&self) -> Cursor {
        Cursor { bytes: self.bytes.len(), splice: self.splices.len(), within: 0 }
    }

    /// Bytes on the wire since `mark`, which an earlier [`Self::end`] gave.
    #[inline]
    pub(crate) fn length_since(&self, mark: Cursor) -> u64 {
        let splices = self.splices.get(mark.splice..).unwrap_or_default();
        let shared: usize = splices.iter().map(|splice| splice.range.len()).sum();
        (self.bytes.len() - mark.bytes + shared) as u64
    }

    pub(crate) fn append_rest(&mut self, source: &Self, cursor: Cursor) {
        let base = self.bytes.len();
        for (index, splice) in source.splices.get(cursor.splice..).unwrap_or_default().iter().enumerate() {
            let begin = splice.range.start + if index == 0 { cursor.within } else { 0 };
            self.splices.push(Splice { at: base + splice.at - cursor.bytes, range: begin..splice.range.end });
        }
        self.bytes.extend_from_slice(source.bytes.get(cursor.bytes..).unwrap_or_default());
    }

    /// The next bytes to send; empty when all are sent.
    #[inline]
    pub(crate) fn rest<'a>(&'a self, cursor: Cursor, block: &'a [u8]) -> &'a [u8] {
        let piece = match self.splices.get(cursor.splice) {
            None => self.bytes.get(cursor.bytes..),
            Some(splice) if splice.at == cursor.bytes => {
                block.get(splice.range.start + cursor.within..splice.range.end)
            }
            Some(splice) => self.bytes.get(cursor.bytes..splice.at),
        };
        piece.unwrap_or_default()
    }

    /// Moves `cursor` over `count` bytes of what [`Self::rest`] gave.
    #[inline]
    pub(crate) fn advance(&self, cursor: &mut Cursor, count: usize) {
        match self.splices.get(cursor.splice) {
            Some(splice) if splice.at == cursor.bytes => {
                cursor.within += count;
                if cursor.within >= splice.range.len() {
                    cursor.splice += 1;
                    cursor.within = 0;
                }
            }
            _ => cursor.bytes += count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sent(outgoing: &Outgoing, mut cursor: Cursor, block: &[u8], steps: &[usize]) -> Vec<u8> {
        let mut wire = Vec::new();
        let mut steps = steps.iter().cycle();
        loop {
            let rest = outgoing.rest(cursor, block);
            if rest.is_empty() {
                return wire;
            }
            let taken = rest.len().min(*steps.next().unwrap());
            wire.extend_from_slice(&rest[..taken]);
            outgoing.advance(&mut cursor, taken);
        }
    }

    #[test]
    fn a_large_value_is_sent_without_being_copied() {
        let block = vec![b'x'; 1 << 20];
        let mut outgoing = Outgoing::default();
        outgoing.bytes.extend_from_slice(b"head");
        let mark = outgoing.end();
        outgoing.splice(0..block.len());
        outgoing.bytes.extend_from_slice(b"tail");
        assert_eq!(outgoing.bytes.capacity().min(1000), outgoing.bytes.capacity());
        assert_eq!(outgoing.length_since(mark), (1 << 20) + 4);
        assert_eq!(sent(&outgoing, Cursor::default(), &block, &[4096]).len(), (1 << 20) + 8);
    }

    proptest! {
        #[test]
        fn any_way_of_sending_gives_the_same_bytes(
            pieces in proptest::collection::vec((any::<bool>(), 1usize..20), 1..10),
            steps in proptest::collection::vec(1usize..30, 1..5),
            cut in 0usize..100,
        ) {
            let block: Vec<u8> = (0..200_u8).collect();
            let (mut outgoing, mut expected) = (Outgoing::default(), Vec::new());
            for (number, (shared, length)) in pieces.into_iter().enumerate() {
                if shared {
                    outgoing.splice(number * 10..number * 10 + length);
                    expected.extend_from_slice(&block[number * 10..number * 10 + length]);
                } else {
                    let bytes = vec![u8::try_from(number).unwrap(); length];
                    outgoing.bytes.extend_from_slice(&bytes);
                    expected.extend_from_slice(&bytes);
                }
            }
            prop_assert_eq!(&sent(&outgoing, Cursor::default(), &block, &steps), &expected);
            // Sent up to the cut, the rest appended behind something else.
            let (mut cursor, mut done) = (Cursor::default(), 0);
            while done < cut.min(expected.len()) {
                let taken = outgoing.rest(cursor, &block).len().min(cut.min(expected.len()) - done);
                outgoing.advance(&mut cursor, taken);
                done += taken;
            }
            let mut other = Outgoing::default();
            other.bytes.extend_from_slice(b"before");
            other.append_rest(&outgoing, cursor);
            let wire = sent(&other, Cursor::default(), &block, &steps);
            prop_assert_eq!(&wire[6..], &expected[done..]);
        }
    }
}
