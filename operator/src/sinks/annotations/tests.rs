//! What is told when, and what comes of it in a Grafana as documented.

use super::*;
use crate::{
    datastore::tests::{Cluster, body, context},
    sinks::{Sinks, grafana::tests::grafana},
};
use serde_json::Value;

const START: &str = "2026-01-01T00:00:00Z";
const END: &str = "2026-01-01T00:01:00.5Z";

fn run(status: Value) -> AnnotatedRun {
    let mut run = json!({
        "metadata": {"name": "sprint", "namespace": "races", "uid": "u", "resourceVersion": "1"},
        "status": {"startedAt": START, "target": {"name": "redis"}, "phase": "OfAnotherVersion"}
    });
    run["status"].as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
    serde_json::from_value(run).unwrap()
}

fn ended(grafana: Value) -> AnnotatedRun {
    run(json!({
        "finishedAt": END, "verdict": "Valid", "message": "all phases measured", "grafana": grafana,
        "headline": {"phase": "read", "throughput": 123_456, "p99LatencyMicroseconds": 520, "limiter": "Server"}
    }))
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn a_run_is_told_at_its_start_and_at_its_end() {
    let Due::Start(start) = due(&run(json!({"grafana": {"pending": true}})), at(START)) else {
        panic!("the start is not told")
    };
    assert_eq!(start.time, 1_767_225_600_000);
    assert_eq!(start.tags, ["dragstrip", "run:sprint", "namespace:races"]);
    assert_eq!(start.text, "BenchmarkRun races/sprint against redis");
    let under_way = run(json!({"grafana": {"annotationId": 7, "pending": true}}));
    assert_eq!(due(&under_way, at(END)), Due::Nothing);
    let Due::End(7, _, end) = due(&ended(json!({"annotationId": 7, "pending": true})), at(END)) else {
        panic!("the end is not told")
    };
    assert_eq!(end.time_end, 1_767_225_660_500);
    assert_eq!(
        end.text,
        "BenchmarkRun races/sprint against redis: Valid, all phases measured\nread: 123,456 ops/s, p99 0.52 ms"
    );
}

#[test]
fn a_run_that_ended_untold_is_told_from_its_start_and_after_a_day_no_more() {
    let untold = ended(json!({"pending": true}));
    assert!(matches!(due(&untold, at(END)), Due::Start(_)));
    assert_eq!(due(&untold, at("2026-01-02T00:02:00Z")), Due::Close);
    assert_eq!(due(&ended(json!({"annotationId": 7, "pending": false})), at(END)), Due::Nothing);
}

#[tokio::test]
async fn a_run_is_one_annotation_from_start_to_end_and_made_anew_where_somebody_deleted_it() {
    let (grafana, _server, kept, _directory) = grafana("glsa_test").await;
    let mut status = GrafanaStatus { annotation_id: None, pending: true };
    // The start, told twice as by a restarted operator, and the end.
    let start = || due(&run(json!({"grafana": {"pending": true}})), at(START));
    for _ in 0..2 {
        status = tell(&grafana, start(), &status).await.unwrap().unwrap();
        assert_eq!(status, GrafanaStatus { annotation_id: Some(1), pending: true });
    }
    kept.lock().unwrap().trouble = Some(503);
    let end = |status: &GrafanaStatus| due(&ended(json!(status)), at(END));
    assert!(tell(&grafana, end(&status), &status).await.is_err(), "Grafana is in trouble");
    let told = tell(&grafana, end(&status), &status).await.unwrap().unwrap();
    assert_eq!(told, GrafanaStatus { annotation_id: Some(1), pending: false });
    assert_eq!(kept.lock().unwrap().annotations.len(), 1);
    kept.lock().unwrap().annotations.clear();
    let told = tell(&grafana, end(&status), &status).await.unwrap().unwrap();
    assert_eq!(told, GrafanaStatus { annotation_id: Some(2), pending: false });
    let (_, annotation) = kept.lock().unwrap().annotations[0].clone();
    assert_eq!(annotation["timeEnd"], 1_767_225_660_500_i64);
    assert!(annotation["text"].as_str().unwrap().contains("Valid"), "{annotation}");
}

#[tokio::test]
async fn the_id_is_written_into_the_status_that_was_looked_at() {
    const WRITE: &str = "PATCH benchmarkruns sprint status";
    let (grafana, _server, kept, _directory) = grafana("glsa_test").await;
    let stored = |call: &str| {
        let stored =
            json!({"metadata": {"name": "sprint", "namespace": "pits", "uid": "u", "resourceVersion": "2"}});
        (call == WRITE).then_some((200, stored))
    };
    let (ctx, calls) = context(Cluster::default(), stored);
    let sinks = Sinks { remote_write: None, grafana: Some(grafana) };
    let ctx = Arc::new(Context { sinks: Arc::new(sinks), ..(*ctx).clone() });
    let mut seen = run(json!({"grafana": {"pending": true}}));
    seen.metadata.namespace = Some("pits".into());
    let seen = Arc::new(seen);
    reconcile(seen.clone(), ctx.clone()).await.unwrap();
    let written = body(&calls, WRITE);
    assert_eq!(written["status"], json!({"grafana": {"annotationId": 1, "pending": true}}), "nothing else");
    assert_eq!(written["metadata"], json!({"resourceVersion": "1"}), "another's write would be undone");
    // The watch is behind what was just written.
    kept.lock().unwrap().annotations.clear();
    reconcile(seen, ctx).await.unwrap();
    assert_eq!(kept.lock().unwrap().annotations.len(), 0, "Grafana was told again");
}

#[test]
fn only_a_run_whose_load_began_is_announced_and_what_was_told_stays() {
    let mut status = dragstrip_crds::BenchmarkRunStatus::default();
    dragstrip_core::run::status::announce(&mut status);
    assert_eq!(status.grafana, None, "a run that waits in the queue is not told");
    status.started_at = Some(Time(at(START)));
    dragstrip_core::run::status::announce(&mut status);
    assert_eq!(status.grafana, Some(GrafanaStatus { annotation_id: None, pending: true }));
    let told = Some(GrafanaStatus { annotation_id: Some(7), pending: false });
    status.grafana.clone_from(&told);
    dragstrip_core::run::status::announce(&mut status);
    assert_eq!(status.grafana, told);
}
