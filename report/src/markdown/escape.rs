//! Text that Markdown takes as it is. Pure.

/// Stands around figures that are struck out until all else is escaped: no name has it.
const STRUCK: char = '\u{1}';
/// Invisible, and ends what GitHub would take for a mention or a reference.
const NOTHING: &str = "&#8203;";

/// A figure that must not be used.
pub fn struck(value: &str) -> String {
    format!("{STRUCK}{value}{STRUCK}")
}

/// A cell of a table, in which nothing is markup but what was struck out.
pub fn cell(text: &str) -> String {
    text.split(STRUCK).map(escaped).collect::<Vec<_>>().join("~~")
}

/// `text` on one line without any markup. Addresses stay links: an underscore within a word and
/// a `#` within a line are none.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let after = rest.peek().copied();
        let is = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '@' if !is(before) => out.extend(["@", NOTHING]),
            '#' if is(after) => out.extend(["#", NOTHING]),
            '_' if is(before) && is(after) => out.push(c),
            '#' if before.is_some() => out.push(c),
            '\\' | '|' | '*' | '_' | '`' | '~' | '[' | ']' | '#' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
        before = Some(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup_in_a_pull_request() {
        for (text, expected) in [
            ("a|b\nc", "a\\|b c"),
            ("<b> *x*", "&lt;b&gt; \\*x\\*"),
            ("![](https://x/t.png)", "!\\[\\](https://x/t.png)"),
            ("[x](https://x)", "\\[x\\](https://x)"),
            ("`x` _y_ ~~z~~", "\\`x\\` \\_y\\_ \\~\\~z\\~\\~"),
            ("# not a heading", "\\# not a heading"),
            ("&lt;img&gt;", "&amp;lt;img&amp;gt;"),
            ("@team, (@org/team)", "@&#8203;team, (@&#8203;org/team)"),
            ("fixes #12", "fixes #&#8203;12"),
            ("redis@sha256:12", "redis@sha256:12"),
            ("--lua_flags of https://x/a_b", "--lua_flags of https://x/a_b"),
        ] {
            assert_eq!(escaped(text), expected, "{text:?} as text");
            assert_eq!(cell(text), expected, "{text:?} in a table");
        }
    }

    #[test]
    fn what_was_struck_out_stays_so() {
        let measured = format!("{}; 2; {}", struck("1.5"), struck("3"));
        assert_eq!(cell(&measured), "~~1.5~~; 2; ~~3~~");
    }
}
