//! Errors in words: every cause once, and what the apiserver answers in its own words. Pure.

use dragstrip_results::error_chain::chain_with;
use kube::core::Status;
use std::error::Error;

/// What kube says around the apiserver's answer: a dump of it, and nothing else.
fn wraps_answer(error: &(dyn Error + 'static)) -> bool {
    let boxed = error.downcast_ref::<Box<kube::Error>>().map(Box::as_ref);
    matches!(error.downcast_ref::<kube::Error>().or(boxed), Some(kube::Error::Api(_)))
}

/// What `error` says itself. Many end with what their cause says.
fn own(error: &(dyn Error + 'static)) -> String {
    let boxed = error.downcast_ref::<Box<Status>>().map(Box::as_ref);
    if let Some(status) = error.downcast_ref::<Status>().or(boxed).filter(|status| !status.message.is_empty())
    {
        return status.message.clone();
    }
    if wraps_answer(error) {
        return String::new();
    }
    let all = error.to_string();
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    match all.strip_suffix(&cause) {
        Some(own) if !cause.is_empty() => own.trim_end_matches([':', ' ']).to_owned(),
        _ => all,
    }
}

/// `error` and its causes.
pub fn told(error: &(dyn Error + 'static)) -> String {
    chain_with(error, own)
}

/// Whether the apiserver does not let this account do it.
pub fn forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_forbidden())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster;
    use kube::runtime::watcher;
    use std::io;

    fn answer() -> kube::Error {
        kube::Error::Api(Status::failure("pods is forbidden", "Forbidden").with_code(403).boxed())
    }

    #[test]
    fn what_the_apiserver_answers_is_said_once_and_without_a_dump() {
        let listed = cluster::Error::List(Box::new(answer()), "run");
        assert_eq!(told(&listed), "failed to list run: pods is forbidden");
        assert_eq!(told(&crate::Error::Cluster(listed)), "failed to list run: pods is forbidden");
        assert_eq!(told(&answer()), "pods is forbidden");
        let watched = watcher::Error::WatchStartFailed(answer());
        assert_eq!(told(&watched), "failed to start watching object: pods is forbidden");
    }

    #[test]
    fn a_cause_that_is_a_part_of_what_was_said_is_not_said_again() {
        let refused = || Box::new(io::Error::other("connection refused"));
        let read = cluster::Error::Read(Box::new(kube::Error::Service(refused())), "run a".into());
        assert_eq!(told(&read), "failed to read run a: ServiceError: connection refused");
    }
}
