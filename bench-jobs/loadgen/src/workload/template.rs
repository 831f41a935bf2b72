//! Arbitrary commands with placeholders, as people write them.
//!
//! Pure text handling: words are split like a shell does, `__key__` and
//! `__data__` become places where every request puts a drawn key and a value.

/// Stands for a drawn key.
const KEY_PLACEHOLDER: &str = "__key__";
/// Stands for a value.
const DATA_PLACEHOLDER: &str = "__data__";

/// A piece of a word.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Piece {
    Text(String),
    /// A key, drawn anew for every placeholder.
    Key,
    Data,
}

/// One word of a command: its pieces, joined.
pub type Word = Vec<Piece>;

/// A command whose words may hold placeholders.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CommandTemplate {
    /// The command first.
    pub(crate) words: Vec<Word>,
}

impl CommandTemplate {
    /// Reads a template; the error names the problem. Blanks separate words; single and double
    /// quotes group them; a backslash takes the next character as it is, except within
    /// single quotes.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<Word> = split_words(text)?.iter().map(|word| pieces_of(word)).collect();
        match words.first().map(Vec::as_slice) {
            None => Err("the command template is empty".into()),
            Some([Piece::Text(_)]) => Ok(Self { words }),
            Some(_) => {
                Err("the first word of a command template must be a command without placeholders".into())
            }
        }
    }

    pub fn command(&self) -> &str {
        match self.words.first().map(Vec::as_slice) {
            Some([Piece::Text(command), ..]) => command,
            _ => "",
        }
    }

    pub fn keys(&self) -> usize {
        self.words.iter().flatten().filter(|piece| **piece == Piece::Key).count()
    }

    pub fn has_data(&self) -> bool {
        self.words.iter().flatten().any(|piece| *piece == Piece::Data)
    }
}

/// Splits like a shell, without anything a shell would expand.
fn split_words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\\', None | Some('"')) => {
                let escaped = characters.next().ok_or("the command template ends in a backslash")?;
                word.get_or_insert_default().push(escaped);
            }
            (closing, Some(open)) if closing == open => quote = None,
            (inner, Some(_)) => word.get_or_insert_default().push(inner),
            ('\'' | '"', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (blank, None) if blank.is_whitespace() => words.extend(word.take()),
            (plain, None) => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    quote.map_or(Ok(words), |quote| Err(format!("a {quote} quote in the command template is not closed")))
}

fn pieces_of(word: &str) -> Word {
    let mut pieces = Vec::new();
    let mut rest = word;
    while let Some((at, placeholder, piece)) = next_placeholder(rest) {
        let (before, after) = rest.split_at(at);
        if !before.is_empty() {
            pieces.push(Piece::Text(before.to_owned()));
        }
        pieces.push(piece);
        rest = after.strip_prefix(placeholder).unwrap_or_default();
    }
    if !rest.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    pieces
}

fn next_placeholder(text: &str) -> Option<(usize, &'static str, Piece)> {
    [(KEY_PLACEHOLDER, Piece::Key), (DATA_PLACEHOLDER, Piece::Data)]
        .into_iter()
        .filter_map(|(placeholder, piece)| Some((text.find(placeholder)?, placeholder, piece)))
        .min_by_key(|(at, _, _)| *at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> Piece {
        Piece::Text(text.into())
    }

    #[test]
    fn words_quotes_and_placeholders_are_distinguished() {
        let template =
            CommandTemplate::parse(r#" HSET user:__key__:x 'a field' "q\"__data__" \__key__ '' "#).unwrap();
        assert_eq!(
            template.words,
            [
                vec![text("HSET")],
                vec![text("user:"), Piece::Key, text(":x")],
                vec![text("a field")],
                vec![text("q\""), Piece::Data],
                vec![Piece::Key],
                vec![text("")],
            ]
        );
        assert_eq!((template.command(), template.keys(), template.has_data()), ("HSET", 2, true));
    }

    #[test]
    fn unusable_templates_are_refused_with_the_reason() {
        for (text, reason) in [
            ("  ", "is empty"),
            ("GET 'a", "a ' quote"),
            ("GET a\\", "ends in a backslash"),
            ("__key__ a", "must be a command without placeholders"),
        ] {
            let refusal = CommandTemplate::parse(text).unwrap_err();
            assert!(refusal.contains(reason), "{text}: {refusal}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "\\PC{0,60}") {
            let _ = CommandTemplate::parse(&text);
        }

        #[test]
        fn quoted_words_come_back_as_they_were(words in proptest::collection::vec("[ -~]{0,12}", 1..6)) {
            let quoted: Vec<String> =
                words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
            prop_assert_eq!(split_words(&quoted.join(" ")).unwrap(), words);
        }

        #[test]
        fn pieces_join_to_the_word_they_were_cut_from(
            parts in proptest::collection::vec("(__key__|__data__|_|[a-z]{1,3})", 0..8)
        ) {
            let word = parts.concat();
            let joined: String = pieces_of(&word)
                .iter()
                .map(|piece| match piece {
                    Piece::Text(text) => text.as_str(),
                    Piece::Key => KEY_PLACEHOLDER,
                    Piece::Data => DATA_PLACEHOLDER,
                })
                .collect();
            prop_assert_eq!(joined, word);
        }
    }
}
