//! Events of an object.

use crate::{Env, Look, until};
use anyhow::Result;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use std::time::Duration;

/// An event as a line.
pub(crate) fn line(event: &Event) -> String {
    format!(
        "{} {}/{} {}: {}",
        event.type_.as_deref().unwrap_or_default(),
        event.involved_object.kind.as_deref().unwrap_or_default(),
        event.involved_object.name.as_deref().unwrap_or_default(),
        event.reason.as_deref().unwrap_or_default(),
        event.message.as_deref().unwrap_or_default(),
    )
}

impl Env {
    /// The events of an object.
    pub async fn events(&self, kind: &str, name: &str) -> Result<Vec<Event>> {
        let fields = format!("involvedObject.kind={kind},involvedObject.name={name}");
        let list = self.api::<Event>().list(&ListParams::default().fields(&fields)).await;
        Ok(list?.items)
    }

    /// Waits for an event of `reason` on an object whose message holds `text`.
    pub async fn event(
        &self,
        kind: &str,
        name: &str,
        reason: &str,
        text: &str,
        within: Duration,
    ) -> Result<()> {
        let what = format!("event {reason} on {kind} {name} that says {text:?}");
        until(&what, within, || async {
            let events = self.events(kind, name).await?;
            let found = events.iter().any(|event| {
                event.reason.as_deref() == Some(reason)
                    && event.message.as_ref().is_some_and(|message| message.contains(text))
            });
            let seen: Vec<String> = events.iter().map(line).collect();
            Ok(if found { Look::Done(()) } else { Look::NotYet(format!("{seen:?}")) })
        })
        .await
    }
}
