//! The operator's signing key, and signatures with it.

use dragstrip_results::signing::{AgentRequest, SigningKey};
use std::{sync::LazyLock, time::SystemTime};

static OPERATOR: LazyLock<SigningKey> =
    LazyLock::new(|| SigningKey::read(&SigningKey::generate().unwrap()).unwrap());

/// The key of the operator of every agent here.
pub fn operator() -> &'static SigningKey {
    &OPERATOR
}

/// What an agent must hold to obey the operator.
pub fn public_key() -> String {
    operator().public().into()
}

/// A signature as of now; `address` is the agent's, with or without a scheme.
pub fn sign(key: &SigningKey, method: &str, path: &str, token: &str, address: &str, body: &[u8]) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let agent = address.trim_start_matches("http://").parse().unwrap();
    key.sign(&AgentRequest { method, path, token, agent, body }, i64::try_from(now).unwrap())
}
