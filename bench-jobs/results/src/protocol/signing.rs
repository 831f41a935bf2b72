//! Signed commands, by which an agent (a runner, an observer) knows that the operator sent them.
//! Anyone who can read objects knows an agent's token; only the operator has the key. Pure, but for
//! the random numbers of a new key.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::{
    rand::SystemRandom,
    signature::{ED25519, ED25519_PUBLIC_KEY_LEN, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey},
};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Request header with a command's signature: `1 ISSUED SIGNATURE`, the moment in
/// milliseconds of Unix time by the operator's clock, the signature in base64.
pub const SIGNATURE_HEADER: &str = "x-dragstrip-signature";
/// Environment variable with the public key that must have signed an observer's commands, in base64.
pub const VERIFYING_KEY_VARIABLE: &str = "DRAGSTRIP_VERIFYING_KEY";
/// For how long a command is valid before and after it was issued, in milliseconds. Clocks
/// of nodes differ; the same command twice changes nothing.
pub const VALID_MILLIS: i64 = 60_000;

/// What is signed: a command to one agent.
#[derive(Debug, Clone, Copy)]
pub struct AgentRequest<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub token: &'a str,
    pub agent: SocketAddr,
    /// The request's body; empty where it has none.
    pub body: &'a [u8],
}

impl AgentRequest<'_> {
    /// No part but the last can hold a line's end: HTTP allows none there.
    fn text(&self, issued_millis: i64) -> Vec<u8> {
        let AgentRequest { method, path, token, agent, body } = self;
        let mut text = format!("dragstrip command 1\n{method}\n{path}\n{token}\n{agent}\n{issued_millis}\n")
            .into_bytes();
        text.extend_from_slice(body);
        text
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("no key can be made: the system gives no random numbers")]
    Random,
    #[error("not an Ed25519 key in the form that Dragstrip writes (PKCS#8)")]
    Pair,
    #[error("not an Ed25519 public key in base64")]
    Public,
}

#[derive(Debug)]
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// A new key, in PKCS#8, to be stored.
    pub fn generate() -> Result<Vec<u8>, KeyError> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| KeyError::Random)?;
        Ok(document.as_ref().to_vec())
    }

    pub fn read(pkcs8: &[u8]) -> Result<Self, KeyError> {
        Ed25519KeyPair::from_pkcs8(pkcs8).map(Self).map_err(|_| KeyError::Pair)
    }

    /// The key that agents verify with.
    pub fn public(&self) -> VerifyingKey {
        VerifyingKey(self.0.public_key().as_ref().to_vec())
    }

    /// The value of [`SIGNATURE_HEADER`].
    pub fn sign(&self, command: &AgentRequest, issued_millis: i64) -> String {
        let signature = self.0.sign(&command.text(issued_millis));
        format!("1 {issued_millis} {}", STANDARD.encode(signature))
    }
}

/// Why an agent does not obey.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "a command must be signed by the operator: the header {SIGNATURE_HEADER} is missing or cannot be read"
    )]
    Unsigned,
    #[error(
        "the command's signature does not fit this pod's key. If the operator's Secret with its key was deleted or replaced, recreate this pod: delete its StatefulSet or its run, and the operator creates it with the current key"
    )]
    OtherKey,
    #[error(
        "the command was issued {0} s from this node's time, more than {allowed} s: set the clocks of this node and the operator's",
        allowed = VALID_MILLIS / 1000
    )]
    OutOfTime(i64),
}

/// The operator's public key, as an agent is given it: a text in base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VerifyingKey(Vec<u8>);

impl TryFrom<String> for VerifyingKey {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        let key = STANDARD.decode(text).map_err(|_| KeyError::Public)?;
        if key.len() == ED25519_PUBLIC_KEY_LEN { Ok(Self(key)) } else { Err(KeyError::Public) }
    }
}

impl From<VerifyingKey> for String {
    fn from(key: VerifyingKey) -> Self {
        STANDARD.encode(key.0)
    }
}

impl VerifyingKey {
    /// Whether `signature`, the value of [`SIGNATURE_HEADER`], makes `command` one to obey
    /// at `now_millis` by the agent's clock.
    pub fn check(
        &self,
        command: &AgentRequest,
        signature: Option<&str>,
        now_millis: i64,
    ) -> Result<(), Refused> {
        let (issued, signature) = signature.and_then(parts).ok_or(Refused::Unsigned)?;
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        key.verify(&command.text(issued), &signature).map_err(|_| Refused::OtherKey)?;
        let away = now_millis.saturating_sub(issued).saturating_abs();
        if away > VALID_MILLIS { Err(Refused::OutOfTime(away / 1000)) } else { Ok(()) }
    }
}

fn parts(header: &str) -> Option<(i64, Vec<u8>)> {
    let (issued, signature) = header.strip_prefix("1 ")?.split_once(' ')?;
    Some((issued.parse().ok()?, STANDARD.decode(signature).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000;

    fn key() -> SigningKey {
        SigningKey::read(&SigningKey::generate().unwrap()).unwrap()
    }

    fn start(body: &'static [u8]) -> AgentRequest<'static> {
        AgentRequest {
            method: "POST",
            path: "/v1/start",
            token: "run-uid/sprint-read-1",
            agent: ([10, 0, 0, 1], 9181).into(),
            body,
        }
    }

    #[test]
    fn a_command_is_obeyed_when_the_operator_signed_this_very_one_a_moment_ago() {
        let (operator, command) = (key(), start(b"{}"));
        let known = operator.public();
        let signature = operator.sign(&command, NOW);
        let check = |command: &AgentRequest, now| known.check(command, Some(&signature), now);
        assert_eq!(check(&command, NOW + 59_000), Ok(()));
        assert_eq!(check(&command, NOW - 59_000), Ok(()), "the agent's clock is behind");
        assert_eq!(check(&command, NOW + 61_000), Err(Refused::OutOfTime(61)));
        assert_eq!(check(&command, NOW - 61_000), Err(Refused::OutOfTime(61)));
        for (what, other) in [
            ("body", start(b"{ }")),
            ("method", AgentRequest { method: "GET", ..command }),
            ("path", AgentRequest { path: "/v1/start?now", ..command }),
            ("token", AgentRequest { token: "run-uid/sprint-read-2", ..command }),
            ("agent", AgentRequest { agent: ([10, 0, 0, 2], 9181).into(), ..command }),
        ] {
            assert_eq!(check(&other, NOW), Err(Refused::OtherKey), "another {what}");
        }
    }

    #[test]
    fn what_is_not_signed_by_the_operator_is_not_obeyed() {
        let (operator, command) = (key(), start(b"{}"));
        let known = operator.public();
        let stranger = key().sign(&command, NOW);
        assert_eq!(known.check(&command, Some(&stranger), NOW), Err(Refused::OtherKey));
        let own = operator.sign(&command, NOW);
        let later = own.replace(&NOW.to_string(), &(NOW + 1).to_string());
        assert_eq!(known.check(&command, Some(&later), NOW), Err(Refused::OtherKey), "a moment of one's own");
        for unreadable in [None, Some(""), Some("1"), Some("1 x y"), Some("2 1 AAAA"), Some("1 1 !")] {
            assert_eq!(known.check(&command, unreadable, NOW), Err(Refused::Unsigned), "{unreadable:?}");
        }
    }

    #[test]
    fn what_is_not_a_key_is_refused() {
        assert_eq!(SigningKey::read(b"no key").err(), Some(KeyError::Pair));
        for no_key in ["AAAA", "!"] {
            assert_eq!(VerifyingKey::try_from(no_key.to_owned()).err(), Some(KeyError::Public), "{no_key}");
        }
        let public = key().public();
        let text = serde_json::to_string(&public).unwrap();
        assert_eq!(serde_json::from_str::<VerifyingKey>(&text).unwrap(), public);
    }
}
