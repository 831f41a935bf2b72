//! What a request to the API server is about, in words that are the same in every run of a scenario.
//! Pure.

use http::Method;
use serde_json::Value;

/// A request as the tests see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The verb, as the API server's own log has it.
    pub verb: &'static str,
    /// The resource, with its subresource.
    pub resource: String,
    /// The name, or what stands for one that is generated.
    pub name: String,
    /// Whether it changes something.
    pub mutates: bool,
}

/// The resource, name and subresource in the path of an API request, whatever its namespace.
fn parts(path: &str) -> Option<(&str, &str, &str)> {
    let mut segments = path.trim_matches('/').split('/');
    match segments.next()? {
        "api" => segments.next()?,
        "apis" => segments.nth(1)?,
        _ => return None,
    };
    let mut segments = segments.peekable();
    let first = segments.next()?;
    if first == "namespaces" && segments.peek().is_some() {
        segments.next();
        let resource = segments.next().unwrap_or("namespaces");
        return Some((resource, segments.next().unwrap_or(""), segments.next().unwrap_or("")));
    }
    Some((first, segments.next().unwrap_or(""), segments.next().unwrap_or("")))
}

/// The namespace in the path of an API request.
fn namespace(path: &str) -> Option<&str> {
    path.split_once("/namespaces/")?.1.split('/').next()
}

/// The name of a pod of a Job without what is generated.
fn without_suffix(name: &str) -> &str {
    let generated =
        |suffix: &str| suffix.len() == 5 && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric());
    name.rsplit_once('-').filter(|(_, suffix)| generated(suffix)).map_or(name, |(name, _)| name)
}

/// The name of the object in the body of a creation; for an Event, its reason and the object's name.
fn created(resource: &str, body: &[u8]) -> String {
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return String::new() };
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
    if resource == "events" {
        format!("{} {}", text("/reason"), text("/regarding/name"))
    } else {
        text("/metadata/name")
    }
}

impl Request {
    /// Reads a request; `None` if it is about no resource.
    pub fn read(method: &Method, path: &str, query: &str, body: &[u8]) -> Option<Self> {
        let (resource, name, subresource) = parts(path)?;
        let flag = |wanted: &str| query.split('&').any(|pair| pair == wanted);
        let verb = match *method {
            Method::GET if flag("watch=true") => "WATCH",
            Method::GET if name.is_empty() => "LIST",
            Method::GET => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            _ => return None,
        };
        let name = match (verb, resource) {
            ("POST", _) if name.is_empty() => created(resource, body),
            (_, "pods") => without_suffix(name).to_owned(),
            _ => name.to_owned(),
        };
        // Each experiment has nodes of its own, and any may be chosen.
        let node = namespace(path).and_then(|own| name.split_once(&format!("node.{own}-")));
        let name = node.map_or(name.clone(), |(prefix, _)| format!("{prefix}node"));
        let mutates = !matches!(verb, "WATCH" | "LIST" | "GET") && !query.contains("dryRun=");
        let resource =
            if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
        Some(Self { verb, resource, name, mutates })
    }

    /// The request in words.
    pub fn words(&self) -> String {
        format!("{} {} {}", self.verb, self.resource, self.name).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(method: &Method, path: &str, query: &str, body: &str) -> String {
        Request::read(method, path, query, body.as_bytes()).map(|it| it.words()).unwrap_or_default()
    }

    #[test]
    fn requests_have_the_same_words_in_every_namespace() {
        let runs = "/apis/dragstrip.dev/v1alpha1/namespaces/faults-7/benchmarkruns";
        for (method, path, query, body, expected) in [
            (
                Method::PATCH,
                format!("{runs}/sprint/status"),
                "force=true",
                "",
                "PATCH benchmarkruns/status sprint",
            ),
            (Method::GET, runs.to_owned(), "watch=true&resourceVersion=7", "", "WATCH benchmarkruns"),
            (
                Method::POST,
                "/apis/coordination.k8s.io/v1/namespaces/faults-7/leases".to_owned(),
                "",
                r#"{"metadata":{"name":"dragstrip-node.faults-7-client-1"}}"#,
                "POST leases dragstrip-node",
            ),
            (Method::GET, runs.to_owned(), "limit=100", "", "LIST benchmarkruns"),
            (Method::GET, "/api/v1/nodes".to_owned(), "", "", "LIST nodes"),
            (Method::GET, "/api/v1/nodes/one".to_owned(), "", "", "GET nodes one"),
            (
                Method::POST,
                "/apis/batch/v1/namespaces/a/jobs".to_owned(),
                "",
                r#"{"metadata":{"name":"sprint-read-1"}}"#,
                "POST jobs sprint-read-1",
            ),
            (
                Method::POST,
                "/apis/events.k8s.io/v1/namespaces/a/events".to_owned(),
                "",
                r#"{"reason":"Running","regarding":{"name":"sprint"},"metadata":{"name":"sprint.18a"}}"#,
                "POST events Running sprint",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/pods/sprint-read-1-0-x7k2p/log".to_owned(),
                "container=client",
                "",
                "GET pods/log sprint-read-1-0",
            ),
            (Method::DELETE, "/api/v1/namespaces/a".to_owned(), "", "", "DELETE namespaces"),
            (Method::GET, "/version".to_owned(), "", "", ""),
        ] {
            assert_eq!(words(&method, &path, query, body), expected, "{path}");
        }
    }

    #[test]
    fn a_dry_run_changes_nothing() {
        let path = "/apis/dragstrip.dev/v1alpha1/namespaces/a/benchmarkruns";
        let mutates = |query| Request::read(&Method::POST, path, query, b"{}").is_some_and(|it| it.mutates);
        assert!(mutates("") && !mutates("dryRun=All"));
    }
}
