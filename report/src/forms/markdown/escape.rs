//! Escapes text for Markdown. Pure.

/// Invisible; keeps GitHub from turning the text around it into a mention or a reference.
const NOTHING: &str = "&#8203;";

/// `text` on one line without any markup. Addresses stay links: an underscore within a word and
/// a `#` within a line are harmless.
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
            assert_eq!(escaped(text), expected, "{text:?}");
        }
    }
}
