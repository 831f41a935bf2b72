//! The operator's signing key, stored in a Secret of its own namespace. Needs the client.

use dragstrip_results::signing::{KeyError, SigningKey};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};

/// The Secret. The release does not own it: an upgrade, or an uninstall and install, finds it again.
const NAME: &str = "dragstrip-operator-signing-key";
/// Key within the Secret: an Ed25519 key pair in PKCS#8.
const KEY: &str = "ed25519.pkcs8";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to read Secret {NAME} with the signing key")]
    Read(#[source] kube::Error),
    #[error("failed to create Secret {NAME} for the signing key")]
    Create(#[source] kube::Error),
    #[error("failed to generate a signing key")]
    Generate(#[source] KeyError),
    #[error("Secret {NAME} has no usable {KEY}: delete it and restart the operator, which creates a new one")]
    Unusable(#[source] KeyError),
}

fn secret(pkcs8: Vec<u8>) -> Secret {
    Secret {
        metadata: ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
        // Running pods would reject every command signed with another key.
        immutable: Some(true),
        data: Some([(KEY.to_owned(), ByteString(pkcs8))].into()),
        ..Secret::default()
    }
}

fn key(secret: &Secret) -> Result<SigningKey, Error> {
    let pkcs8 = secret.data.as_ref().and_then(|data| data.get(KEY)).map_or(&[][..], |bytes| &bytes.0);
    SigningKey::read(pkcs8).map_err(Error::Unusable)
}

/// Reads the signing key from `namespace`, or creates it. If several operators create it at the
/// same time, all use the key of the first.
pub async fn read_or_create(client: &Client, namespace: &str) -> Result<SigningKey, Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    if let Some(found) = secrets.get_opt(NAME).await.map_err(Error::Read)? {
        return key(&found);
    }
    let new = secret(SigningKey::generate().map_err(Error::Generate)?);
    match secrets.create(&PostParams::default(), &new).await {
        Ok(made) => key(&made),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            key(&secrets.get(NAME).await.map_err(Error::Read)?)
        }
        Err(error) => Err(Error::Create(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response, StatusCode};
    use kube::client::Body;
    use serde_json::json;
    use std::sync::{Arc, Mutex};

    /// An API server on which another operator creates the Secret first, if `raced` has one.
    fn apiserver(stored: &Arc<Mutex<Option<Secret>>>, raced: Option<Secret>) -> Client {
        let stored = Arc::clone(stored);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (stored, raced) = (Arc::clone(&stored), raced.clone());
            async move {
                let failure = |code: u16, reason: &str| {
                    (
                        code,
                        json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason}),
                    )
                };
                let (code, answer) = if request.method() == "GET" {
                    match &*stored.lock().unwrap() {
                        Some(secret) => (200, json!(secret)),
                        None => failure(404, "NotFound"),
                    }
                } else if let Some(raced) = raced {
                    *stored.lock().unwrap() = Some(raced);
                    failure(409, "AlreadyExists")
                } else {
                    let body = request.into_body().collect_bytes().await.unwrap();
                    *stored.lock().unwrap() = Some(serde_json::from_slice(&body).unwrap());
                    (201, serde_json::from_slice(&body).unwrap())
                };
                let answer = Body::from(serde_json::to_vec(&answer).unwrap());
                let response = Response::builder().status(StatusCode::from_u16(code).unwrap());
                Ok::<_, std::convert::Infallible>(response.body(answer).unwrap())
            }
        });
        Client::new(service, "dragstrip-system")
    }

    async fn public(client: &Client) -> dragstrip_results::signing::VerifyingKey {
        read_or_create(client, "dragstrip-system").await.unwrap().public()
    }

    #[tokio::test]
    async fn the_key_is_created_once_and_found_again() {
        let stored = Arc::default();
        let client = apiserver(&stored, None);
        let first = public(&client).await;
        assert_eq!(public(&client).await, first);
        assert_eq!(stored.lock().unwrap().as_ref().unwrap().immutable, Some(true));
    }

    #[tokio::test]
    async fn two_operators_that_start_together_use_the_key_of_the_first() {
        let first = SigningKey::generate().unwrap();
        let client = apiserver(&Arc::default(), Some(secret(first.clone())));
        assert_eq!(public(&client).await, SigningKey::read(&first).unwrap().public());
    }

    #[tokio::test]
    async fn a_secret_without_a_key_is_reported_and_left_alone() {
        let stored = Arc::new(Mutex::new(Some(Secret::default())));
        let error = read_or_create(&apiserver(&stored, None), "dragstrip-system").await.unwrap_err();
        assert!(error.to_string().contains("delete it and restart the operator"), "{error}");
    }
}
