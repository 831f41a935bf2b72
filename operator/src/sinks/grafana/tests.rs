//! The client against a server that takes nothing but what Grafana's HTTP API documents.

use super::*;
use crate::sinks::fixtures::{Asked, Server};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const TOKEN: &str = "Bearer glsa_test";

/// Annotations by id, and what is to go wrong with the next request.
#[derive(Default)]
pub(in crate::sinks) struct Kept {
    pub annotations: Vec<(i64, Value)>,
    made: i64,
    /// The next change is made, but answered with this status, as when an answer is lost.
    pub trouble: Option<u16>,
}

fn fields(body: &Value) -> Vec<&str> {
    body.as_object().expect("the body is no object").keys().map(String::as_str).collect()
}

/// Whether `annotation` is what a query such as `from=1&to=2&tags=a` asks for.
fn is_asked_for(query: &str, annotation: &Value) -> bool {
    query.split('&').map(|pair| pair.split_once('=').expect("not NAME=VALUE")).all(|(name, value)| match name
    {
        "type" => value == "annotation",
        "from" => {
            annotation["timeEnd"].as_i64().unwrap_or(annotation["time"].as_i64().unwrap())
                >= value.parse().unwrap()
        }
        "to" => annotation["time"].as_i64().unwrap() <= value.parse().unwrap(),
        "tags" => annotation["tags"].as_array().unwrap().contains(&json!(value)),
        other => panic!("the API has no parameter {other}"),
    })
}

fn post(kept: &mut Kept, body: Value) -> (u16, Value) {
    assert_eq!(fields(&body), ["tags", "text", "time"], "serde_json sorts the names");
    assert!(body["time"].is_i64() && body["text"].as_str().is_some_and(|text| !text.is_empty()), "{body}");
    assert!(body["tags"].as_array().unwrap().iter().all(Value::is_string), "{body}");
    kept.made += 1;
    kept.annotations.push((kept.made, body));
    (200, json!({"message": "Annotation added", "id": kept.made}))
}

fn patch(kept: &mut Kept, id: &str, body: &Value) -> (u16, Value) {
    assert_eq!(fields(body), ["text", "timeEnd"]);
    assert!(body["timeEnd"].is_i64() && body["text"].is_string(), "{body}");
    let id: i64 = id.parse().expect("an id is a number");
    match kept.annotations.iter_mut().find(|(known, _)| *known == id) {
        Some((_, annotation)) => {
            annotation.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
            (200, json!({"message": "Annotation patched"}))
        }
        None => (404, json!({"message": "Could not find annotation to update"})),
    }
}

fn answer(kept: &mut Kept, asked: &Asked) -> (u16, Value) {
    if asked.headers.get("authorization").is_none_or(|found| found != TOKEN) {
        return (401, json!({"message": "Unauthorized"}));
    }
    assert_eq!(asked.headers["accept"], "application/json");
    let body = || {
        assert_eq!(asked.headers["content-type"], "application/json");
        serde_json::from_slice::<Value>(&asked.body).expect("the body is no JSON")
    };
    let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    match (asked.method.as_str(), path.strip_prefix("/grafana/api/annotations")) {
        ("GET", Some("")) => {
            let found = kept.annotations.iter().filter(|(_, annotation)| is_asked_for(query, annotation));
            let with_id = |(id, annotation): &(i64, Value)| {
                let mut whole = annotation.clone();
                whole["id"] = json!(id);
                whole
            };
            (200, found.map(with_id).collect())
        }
        ("POST", Some("")) => post(kept, body()),
        ("PATCH", Some(id)) => patch(kept, id.trim_start_matches('/'), &body()),
        other => panic!("the API has no {other:?}"),
    }
}

/// A Grafana under the path /grafana, a client of it, and what it keeps.
pub(in crate::sinks) async fn grafana(token: &str) -> (Grafana, Server, Arc<Mutex<Kept>>, tempfile::TempDir) {
    let kept = Arc::new(Mutex::new(Kept::default()));
    let own = kept.clone();
    let server = Server::answering(move |asked| {
        let mut own = own.lock().unwrap();
        let (code, body) = answer(&mut own, &asked);
        let changes = asked.method != Method::GET;
        let code = own.trouble.take_if(|_| changes).unwrap_or(code);
        std::future::ready((code, body.to_string()))
    });
    let server = server.await;
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("token"), token).unwrap();
    let url = format!("{}/grafana/", server.url);
    let endpoint = Endpoint::new(&url, Some(directory.path().to_owned()), Vec::new()).unwrap();
    (Grafana::new(endpoint), server, kept, directory)
}

fn annotation(time: i64) -> Annotation {
    let tags = ["dragstrip", "run:sprint", "namespace:races"].map(str::to_owned).to_vec();
    Annotation { time, tags, text: "BenchmarkRun races/sprint against redis".into() }
}

#[tokio::test]
async fn an_annotation_is_made_once_and_ended() {
    let (grafana, _server, kept, _directory) = grafana("glsa_test").await;
    let id = grafana.make(&annotation(1000)).await.unwrap();
    assert_eq!(grafana.make(&annotation(1000)).await.unwrap(), id, "it is there already");
    let other = grafana.make(&annotation(1001)).await.unwrap();
    assert_ne!(other, id, "a later run of the same name has its own");
    assert!(grafana.end(id, &End { time_end: 5000, text: "Valid".into() }).await.unwrap());
    let kept = kept.lock().unwrap();
    let expected = json!({
        "time": 1000, "timeEnd": 5000, "tags": ["dragstrip", "run:sprint", "namespace:races"], "text": "Valid"
    });
    assert_eq!(kept.annotations[0], (id, expected));
    assert_eq!(kept.annotations.len(), 2);
}

#[tokio::test]
async fn an_annotation_whose_answer_was_lost_is_found_again() {
    let (grafana, _server, kept, _directory) = grafana("glsa_test").await;
    kept.lock().unwrap().trouble = Some(502);
    assert!(grafana.make(&annotation(1000)).await.is_err());
    assert_eq!(grafana.make(&annotation(1000)).await.unwrap(), 1);
    assert_eq!(kept.lock().unwrap().annotations.len(), 1, "the run is there twice");
}

#[tokio::test]
async fn what_grafana_refuses_is_told_in_its_words() {
    let (stranger, _server, _kept, _directory) = grafana("glsa_other").await;
    let told = stranger.make(&annotation(1000)).await.unwrap_err().to_string();
    assert_eq!(told, "Grafana answered 401 Unauthorized: {\"message\":\"Unauthorized\"}");
    let (grafana, _server, kept, _directory) = grafana("glsa_test").await;
    assert!(!grafana.end(7, &End { time_end: 1, text: "x".into() }).await.unwrap(), "there is no 7");
    kept.lock().unwrap().trouble = Some(500);
    let told = grafana.end(7, &End { time_end: 1, text: "x".into() }).await.unwrap_err().to_string();
    assert!(told.contains("500 Internal Server Error"), "{told}");
}
