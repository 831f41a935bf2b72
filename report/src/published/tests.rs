use super::*;

fn known() -> Known {
    Known {
        variants: vec!["redis-6.2".into(), "dragonfly".into()],
        axes: vec![AxisHead { name: "connections".into(), values: vec!["1".into(), "10".into()] }],
        phases: vec!["write".into(), "read".into()],
    }
}

const HEAD: &str = "variant,connections,phase,operation,metric,value,unit,note";

fn error(lines: &[&str]) -> String {
    let text = std::iter::once(HEAD).chain(lines.iter().copied()).collect::<Vec<_>>().join("\n");
    parse(&text, &known()).unwrap_err().to_string()
}

#[test]
fn a_table_is_read_with_its_conditions() {
    let text = format!(
        "\u{feff}# server.instanceType: c6gn.12xlarge\n# source: the page\n{HEAD}\r\nredis-6.2,1,write,,OperationsPerSecond,71351,,\r\ndragonfly,10,read,GET,P99Milliseconds,0.687,ms,\"as printed, rounded\"\r\n"
    );
    let table = parse(&text, &known()).unwrap();
    assert_eq!(table.facts["server.instanceType"], "c6gn.12xlarge");
    assert_eq!(table.figures.len(), 2);
    assert_eq!((table.figures[0].operation.as_str(), table.figures[0].value), ("TOTAL", 71_351.0));
    assert_eq!(table.figures[1].note.as_deref(), Some("as printed, rounded"));
}

#[test]
fn a_missing_column_is_named_with_those_that_are_there() {
    let of = |head: &str| parse(&format!("{head}\n"), &known()).unwrap_err().to_string();
    assert_eq!(
        of("variant,connection,phase,operation,metric,value"),
        "line 1: column \"connections\" is missing: the head has variant, connection, phase, operation, metric, value: is it what is called \"connection\"?"
    );
    assert!(of("variant;connections;phase").ends_with("separate columns by commas, not by semicolons"));
    let unknown = of("variant,connections,phase,operation,metric,value,size");
    assert!(
        unknown.starts_with(
            "line 1: column \"size\" is there twice, or unknown: allowed are variant, connections"
        ),
        "{unknown}"
    );
    let twice = of("variant,connections,phase,operation,metric,value,value");
    assert!(twice.starts_with("line 1: column \"value\" is there twice"), "{twice}");
}

#[test]
fn decimal_commas_and_thousands_separators_are_refused_with_the_remedy() {
    let of = |value: &str| {
        error(&[
            "dragonfly,1,read,GET,P99Milliseconds,1,,",
            &format!("dragonfly,10,read,GET,P99Milliseconds,{value},,"),
        ])
    };
    assert_eq!(
        of("\"1597,30\""),
        "line 3, column \"value\": \"1597,30\" is not a number: a decimal comma? Write 1597.30"
    );
    let either = of("\"1,234\"");
    assert!(
        either.contains("1234 if the comma separates thousands, and 1.234 if it is a decimal comma"),
        "{either}"
    );
    assert!(of("\"1,937.41\"").ends_with("write it without thousands separators: 1937.41"));
    assert!(of("\"1.597,30\"").ends_with("a decimal comma? Write 1597.30"), "{}", of("\"1.597,30\""));
    assert!(of("-5").ends_with("no figure is below 0"), "{}", of("-5"));
    assert!(of("1 234").ends_with("write it without thousands separators: 1234"));
    assert!(of("5.2M").ends_with("in the metric's unit"), "{}", of("5.2M"));
    assert!(of("NaN").contains("is not a number") && of("").contains("is not a number"));
    let split = of("1597,30");
    assert!(split.starts_with("line 3: 9 fields under a head of 8: a comma within a value?"), "{split}");
}

#[test]
fn unknown_names_have_their_near_misses() {
    assert_eq!(
        error(&["redis-62,1,read,GET,P99Milliseconds,1,,"]),
        "line 2, column \"variant\": \"redis-62\" is unknown: did you mean redis-6.2?"
    );
    assert!(
        error(&["dragonfly,50,read,GET,P99Milliseconds,1,,"]).ends_with("\"50\" is unknown: there are 1, 10")
    );
    assert!(error(&["dragonfly,1,raed,GET,P99Milliseconds,1,,"]).ends_with("did you mean read?"));
    assert!(error(&["dragonfly,1,read,GET,P99Millisecond,1,,"]).contains("did you mean P99Milliseconds"));
    assert!(
        error(&["dragonfly,1,read,GET,operationspersecond,1,,"]).contains("did you mean OperationsPerSecond")
    );
    let own = parse(&format!("{HEAD}\ndragonfly,1,read,,allocs/op,7,,\n"), &known()).unwrap();
    assert_eq!(own.figures[0].metric, "allocs/op", "a figure of the tool's own");
}

#[test]
fn another_unit_and_a_figure_said_twice_are_refused() {
    let unit = error(&["dragonfly,1,read,GET,P99Milliseconds,687,us,"]);
    assert_eq!(
        unit,
        "line 2, column \"unit\": P99Milliseconds is in ms, not in \"us\": write the value in ms"
    );
    let thousands = error(&["dragonfly,1,read,GET,OperationsPerSecond,4195,kops/s,"]);
    assert!(thousands.contains("OperationsPerSecond is in ops/s, not in \"kops/s\""), "{thousands}");
    let share = error(&["dragonfly,1,read,GET,HitRatio,95,%,"]);
    assert!(share.contains("HitRatio is in no unit, not in \"%\""), "{share}");
    let line = "dragonfly,1,read,GET,P99Milliseconds,1,,";
    let twice = error(&[line, "dragonfly,10,read,GET,P99Milliseconds,1,,", line]);
    assert!(
        twice.starts_with("line 4: the same figure as in line 2 (dragonfly connections=1, read GET"),
        "{twice}"
    );
    assert_eq!(parse("", &known()), Err(Error::Empty));
    assert_eq!(parse(HEAD, &known()), Err(Error::Empty));
}

#[test]
fn a_partial_suite_may_leave_out_what_it_does_not_measure() {
    let text = format!(
        "# partial: true\n{HEAD}\ngarnet,1,read,,P99Milliseconds,1,,\ndragonfly,50,read,,P99Milliseconds,1,,\ndragonfly,1,read,,P99Milliseconds,1,,\n"
    );
    let table = parse(&text, &known()).unwrap();
    assert_eq!((table.figures.len(), table.left_out), (1, 2));
    assert!(!table.facts.contains_key("partial"), "{:?}", table.facts);
}
