//! Events on objects. Needs the client.

use super::apply::namespace_ends;
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};

/// Longest note that the API server accepts, in bytes.
const NOTE_LIMIT: usize = 1024;

/// Publishes events. A failure to publish is logged and never fails a
/// reconcile: events inform, conditions are the record.
pub struct Announcer(Client);

fn fit(note: &str) -> &str {
    &note[..note.floor_char_boundary(NOTE_LIMIT)]
}

impl Announcer {
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    /// Publishes `note` on `object`.
    ///
    /// Each event has its own recorder: the key of a recorder's cache lacks the note, so it would
    /// repeat the first note of a reason for as long as that reason recurs.
    pub async fn publish<K>(&self, object: &K, warning: bool, reason: &str, note: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(fit(note).to_owned()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        let reporter = Reporter { controller: "dragstrip".into(), instance: None };
        let recorder = Recorder::new(self.0.clone(), reporter);
        if let Err(error) = recorder.publish(&event, &object.object_ref(&())).await
            && !namespace_ends(&error)
        {
            tracing::warn!(%error, reason, "failed to publish an event");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_notes_are_cut_between_characters() {
        assert_eq!(fit("short"), "short");
        let long = "é".repeat(600);
        assert_eq!(fit(&long).len(), 1024);
        assert!(fit(&format!("x{long}")).len() < 1024, "a cut through a character must move back");
    }
}
