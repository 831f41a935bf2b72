//! The values that requests carry.
//!
//! All values are cut from one block that every connection of every thread
//! shares; small ones are copied from it, large ones referred to.

use std::sync::Arc;

use crate::wire::outgoing::{Outgoing, SHARED_VALUE_BYTES};
use crate::workload::decimal::Decimal;

/// The bytes that values are cut from.
pub(crate) fn block(largest: usize) -> Arc<[u8]> {
    vec![b'x'; largest].into()
}

/// The values of one operation.
#[derive(Clone, Debug)]
pub(crate) struct ValueSource {
    block: Arc<[u8]>,
    size: usize,
    /// The complete argument, if it is small.
    ready: Option<Arc<[u8]>>,
}

impl ValueSource {
    pub(crate) fn new(block: Arc<[u8]>, size: usize) -> Self {
        let mut source = Self { block, size, ready: None };
        if size < SHARED_VALUE_BYTES {
            let mut argument = Outgoing::default();
            source.write(&mut argument);
            source.ready = Some(argument.bytes.into());
        }
        source
    }

    /// The complete argument, if it is small.
    pub(crate) fn ready(&self) -> Option<&[u8]> {
        self.ready.as_deref()
    }

    /// Bytes of a value.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Writes a value as a complete argument.
    #[inline]
    pub(crate) fn write(&self, outgoing: &mut Outgoing) {
        if let Some(ready) = &self.ready {
            outgoing.bytes.extend_from_slice(ready);
            return;
        }
        Self::write_header(outgoing, self.size);
        self.write_bytes(outgoing);
        outgoing.bytes.extend_from_slice(b"\r\n");
    }

    fn write_header(outgoing: &mut Outgoing, size: usize) {
        outgoing.bytes.push(b'$');
        outgoing.bytes.extend_from_slice(Decimal::new(size as u64).line());
    }

    /// Writes the bytes of a value, without its length.
    pub(crate) fn write_bytes(&self, outgoing: &mut Outgoing) {
        if self.size >= SHARED_VALUE_BYTES {
            outgoing.splice(0..self.size);
        } else {
            outgoing.bytes.extend_from_slice(self.block.get(..self.size).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_values_take_no_room_of_their_own() {
        let source = ValueSource::new(block(1 << 20), 1 << 20);
        let mut outgoing = Outgoing::default();
        source.write(&mut outgoing);
        assert_eq!(outgoing.bytes, b"$1048576\r\n\r\n");
        assert_eq!(outgoing.length_since(Outgoing::default().mark()), (1 << 20) + 12);
    }
}
