//! Errors in words: every cause once, and the API server's answers in its own words. Pure.

use dragstrip_results::error_chain::chain_with;
use kube::{config::InferConfigError, core::Status};
use std::error::Error;

/// The result of a command. The error is that of the step that failed.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// Whether kube wraps an answer of the API server here, and adds only a dump of it.
fn wraps_answer(error: &(dyn Error + 'static)) -> bool {
    let boxed = error.downcast_ref::<Box<kube::Error>>().map(Box::as_ref);
    matches!(error.downcast_ref::<kube::Error>().or(boxed), Some(kube::Error::Api(_)))
}

/// The message of `error` itself. Many end with the message of their cause.
fn own(error: &(dyn Error + 'static)) -> String {
    let boxed = error.downcast_ref::<Box<Status>>().map(Box::as_ref);
    if let Some(status) = error.downcast_ref::<Status>().or(boxed).filter(|status| !status.message.is_empty())
    {
        return status.message.clone();
    }
    // Its message is that of both places where a client looks, and its source that of the kubeconfig.
    if wraps_answer(error) || error.is::<InferConfigError>() {
        return String::new();
    }
    let all = error.to_string();
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    match all.strip_suffix(&cause) {
        Some(own) if !cause.is_empty() => own.trim_end_matches([':', ' ']).to_owned(),
        _ => all,
    }
}

pub fn chain(error: &(dyn Error + 'static)) -> String {
    chain_with(error, own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::client;
    use std::io;

    #[test]
    fn the_api_servers_answer_is_printed_once_and_without_a_dump() {
        let answer =
            || kube::Error::Api(Status::failure("pods is forbidden", "Forbidden").with_code(403).boxed());
        let listed = client::Error::Read(Box::new(answer()), "run a".into());
        assert_eq!(chain(&listed), "failed to read run a: pods is forbidden");
        let wrapped = crate::cluster::follow::Error::Cluster(listed);
        assert_eq!(chain(&wrapped), "failed to read run a: pods is forbidden");
        assert_eq!(chain(&answer()), "pods is forbidden");
    }

    #[test]
    fn a_cause_that_the_message_repeats_is_printed_once() {
        let refused = || Box::new(io::Error::other("connection refused"));
        let read = client::Error::Read(Box::new(kube::Error::Service(refused())), "run a".into());
        assert_eq!(chain(&read), "failed to read run a: ServiceError: connection refused");
    }
}
