//! The page as text; what a browser makes of it is page-test's to see.

#[path = "../examples/page/samples/mod.rs"]
mod samples;

use dragstrip_report::html::render;
use std::time::{Duration, Instant};

#[test]
fn pages_are_small_enough_to_be_stored_and_sent_and_made_at_once() {
    for (name, document, most) in
        [("suite", samples::suite(), 400_000), ("large", samples::large(), 1_500_000)]
    {
        let page = render(&document);
        assert!(page.len() < most, "{name} has {} bytes, at most {most}", page.len());
        // Others may keep this machine busy: the fastest of some counts.
        let took = (0..5).map(|_| {
            let begun = Instant::now();
            render(&document);
            begun.elapsed()
        });
        let took = took.min().unwrap();
        assert!(took < Duration::from_secs(1), "{name} took {took:?} to render");
    }
}

#[test]
fn no_text_of_a_document_becomes_markup() {
    let page = render(&samples::hostile());
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "the text is nowhere to be read");
    for markup in ["<script>alert", "<img", "onerror=alert(2)>\"'&"] {
        assert!(!page.contains(markup), "{markup} is in the page as markup");
    }
    assert_eq!(page.matches("<script>").count(), 1, "one script, the page's own");
}

#[test]
fn nothing_is_fetched_or_linked() {
    for (name, document) in samples::all() {
        let page = render(&document);
        for source in ["http://", "https://", " src=\"", "url(", "@import"] {
            assert!(!page.contains(source), "{name} has {source}");
        }
        let mut links = page.split("href=\"").skip(1);
        assert!(
            links.all(|link| link.starts_with('#') || link.starts_with("data:,\"")),
            "{name} links to elsewhere"
        );
    }
}

#[test]
fn no_chart_has_a_coordinate_that_is_no_number() {
    for (name, document) in samples::all() {
        let page = render(&document);
        for wrong in ["NaN", "\"inf"] {
            assert!(!page.contains(wrong), "{name} has {wrong}");
        }
    }
}

#[test]
fn an_invalid_measurement_is_struck_out_with_its_reason() {
    let page = render(&samples::suite());
    assert!(
        page.contains("<s title=\"Evictions: the server evicted 81,203 keys"),
        "struck out, with the reason on hover"
    );
    assert!(page.contains("<small>Evictions: the server evicted 81,203 keys"), "and in text");
}

#[test]
fn what_is_not_there_has_no_section() {
    let page = render(&samples::memory());
    for heading in ["Saturation", "Thresholds", "Second by second", "Matrices"] {
        assert!(!page.contains(&format!("<h2>{heading}")), "{heading} stands above nothing");
    }
    assert!(page.contains("<h2>Memory"), "memory has a table");
}

#[test]
fn a_search_has_one_point_for_each_value_and_a_chart_of_its_open_loops() {
    let mut document = samples::search();
    let points =
        |document: &dragstrip_report::document::Document| render(document).matches("<circle").count();
    let before = points(&document);
    let found = &mut document.runs[0].searches[0].found;
    let mut disturbed = found.points[4].clone();
    disturbed.latency_milliseconds.p99 = Some(900.0);
    found.points.splice(5..5, [found.points[4].clone(), disturbed]);
    assert_eq!(points(&document), before, "the median of three measurements stands for their value");
    let share = |tenths: u32| {
        let share = f64::from(tenths) / 10.0;
        serde_json::json!({"repetition": 1, "share": share, "value": 90_000 * tenths,
            "operationsPerSecond": 9e5 * share, "latencyMilliseconds": {"p99": 0.2 + share}, "configMap": ""})
    };
    let shares = serde_json::json!([share(5), share(7), share(9)]);
    document.runs[0].searches[0].found.rates = serde_json::from_value(shares).unwrap();
    let page = render(&document);
    assert!(
        page.contains("open loop at shares of the throughput found"),
        "latency against load has its chart"
    );
    assert_eq!(points(&document), before + 3);
}
