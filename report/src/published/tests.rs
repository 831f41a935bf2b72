use super::*;

fn scope() -> Scope {
    Scope {
        variants: vec!["redis-6.2".into(), "dragonfly".into()],
        axes: vec![AxisHead { name: "connections".into(), values: vec!["1".into(), "10".into()] }],
        phases: vec!["write".into(), "read".into()],
    }
}

const HEAD: &str = "variant,connections,phase,operation,metric,value,unit,note";

fn error(lines: &[&str]) -> String {
    let text = std::iter::once(HEAD).chain(lines.iter().copied()).collect::<Vec<_>>().join("\n");
    parse(&text, &scope()).unwrap_err().to_string()
}

#[test]
fn a_table_is_read_with_its_conditions() {
    let text = format!(
        "\u{feff}# server.instanceType: c6gn.12xlarge\n# source: the page\n{HEAD}\r\nredis-6.2,1,write,,OperationsPerSecond,71351,,\r\ndragonfly,10,read,GET,P99Milliseconds,0.687,ms,\"as printed, rounded\"\r\n"
    );
    let table = parse(&text, &scope()).unwrap();
    assert_eq!(table.facts["server.instanceType"], "c6gn.12xlarge");
    assert_eq!(table.figures.len(), 2);
    assert_eq!((table.figures[0].operation.as_str(), table.figures[0].value), ("TOTAL", 71_351.0));
    assert_eq!(table.figures[1].note.as_deref(), Some("as printed, rounded"));
}

#[test]
fn wrong_columns_are_reported_with_the_right_ones() {
    for head in [
        "variant,connection,phase,operation,metric,value",
        "variant,connections,phase,operation,metric,value,size",
        "variant,connections,phase,operation,metric,value,value",
    ] {
        assert_eq!(
            parse(&format!("{head}\n"), &scope()).unwrap_err().to_string(),
            format!(
                "the columns are {}: use variant, connections, phase, operation, metric, value, and optionally unit and note, separated by commas",
                head.replace(',', ", ")
            )
        );
    }
    let semicolons = parse("variant;connections;phase\n", &scope()).unwrap_err().to_string();
    assert!(semicolons.starts_with("the columns are variant;connections;phase: "), "{semicolons}");
}

#[test]
fn decimal_commas_and_thousands_separators_are_refused_with_the_remedy() {
    let of = |value: &str| {
        error(&[
            "dragonfly,1,read,GET,P99Milliseconds,1,,",
            &format!("dragonfly,10,read,GET,P99Milliseconds,{value},,"),
        ])
    };
    for value in
        ["\"1597,30\"", "\"1,234\"", "\"1,937.41\"", "\"1.597,30\"", "-5", "1 234", "5.2M", "NaN", "inf", ""]
    {
        let (plain, message) = (value.trim_matches('"'), of(value));
        let start = format!(
            "line 3, column \"value\": {plain:?} is not a number: write only digits, with a point before the fraction"
        );
        assert!(message.starts_with(&start), "{message}");
    }
    assert_eq!(of("1597,30"), "not valid CSV; quote texts that contain commas");
}

#[test]
fn unknown_names_are_reported_with_similar_ones() {
    assert_eq!(
        error(&["redis-62,1,read,GET,P99Milliseconds,1,,"]),
        "line 2, column \"variant\": \"redis-62\" is unknown; did you mean redis-6.2?"
    );
    assert!(
        error(&["dragonfly,50,read,GET,P99Milliseconds,1,,"])
            .ends_with("\"50\" is unknown; expected one of 1, 10")
    );
    assert!(error(&["dragonfly,1,raed,GET,P99Milliseconds,1,,"]).ends_with("did you mean read?"));
    let own = parse(&format!("{HEAD}\ndragonfly,1,read,,allocs/op,7,,\n"), &scope()).unwrap();
    assert_eq!(own.figures[0].metric, "allocs/op", "a metric of the tool itself");
}

#[test]
fn another_unit_and_a_duplicate_figure_are_refused() {
    let unit = error(&["dragonfly,1,read,GET,P99Milliseconds,687,us,"]);
    assert_eq!(
        unit,
        "line 2, column \"unit\": the unit of P99Milliseconds is ms, not \"us\": convert the value"
    );
    let thousands = error(&["dragonfly,1,read,GET,OperationsPerSecond,4195,kops/s,"]);
    assert!(thousands.contains("the unit of OperationsPerSecond is ops/s, not \"kops/s\""), "{thousands}");
    let share = error(&["dragonfly,1,read,GET,HitRatio,95,%,"]);
    assert!(share.contains("the unit of HitRatio is 1, not \"%\""), "{share}");
    let line = "dragonfly,1,read,GET,P99Milliseconds,1,,";
    let twice = error(&[line, "dragonfly,10,read,GET,P99Milliseconds,1,,", line]);
    assert!(
        twice.starts_with("line 4: the same figure as in line 2 (dragonfly connections=1, read GET"),
        "{twice}"
    );
    assert!(matches!(parse("", &scope()), Err(Error::Empty)));
    assert!(matches!(parse(HEAD, &scope()), Err(Error::Empty)));
}

#[test]
fn a_partial_suite_may_omit_what_it_does_not_measure() {
    let text = format!(
        "# partial: true\n{HEAD}\ngarnet,1,read,,P99Milliseconds,1,,\ndragonfly,50,read,,P99Milliseconds,1,,\ndragonfly,1,read,,P99Milliseconds,1,,\n"
    );
    let table = parse(&text, &scope()).unwrap();
    assert_eq!((table.figures.len(), table.omitted), (1, 2));
    assert!(!table.facts.contains_key("partial"), "{:?}", table.facts);
}
