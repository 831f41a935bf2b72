//! The operator's key, kept in a Secret of its own namespace. Needs the client.

use dragstrip_results::signing::{KeyError, SigningKey};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};

/// Key within the Secret: an Ed25519 key pair in PKCS#8.
const KEY: &str = "ed25519.pkcs8";

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be read.
    #[error("failed to read Secret {1} with the key that signs commands")]
    Read(#[source] kube::Error, String),
    /// It could not be made.
    #[error("failed to make Secret {1} with the key that signs commands")]
    Create(#[source] kube::Error, String),
    /// No key could be made.
    #[error("failed to make a key that signs commands")]
    Generate(#[source] KeyError),
    /// There is something else in it.
    #[error("Secret {1} holds no usable {KEY}: delete it and restart the operator, which makes another")]
    Unusable(#[source] KeyError, String),
}

fn secret(name: &str, pkcs8: Vec<u8>) -> Secret {
    Secret {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        // A key that is exchanged is one that no pod obeys.
        immutable: Some(true),
        data: Some([(KEY.to_owned(), ByteString(pkcs8))].into()),
        ..Secret::default()
    }
}

fn key(secret: &Secret, name: &str) -> Result<SigningKey, Error> {
    let pkcs8 = secret.data.as_ref().and_then(|data| data.get(KEY)).map_or(&[][..], |bytes| &bytes.0);
    SigningKey::read(pkcs8).map_err(|error| Error::Unusable(error, name.to_owned()))
}

/// The key in Secret `name` of `namespace`, made when it is not there. Of several operators
/// that make it at once one is first, and all take that one's.
pub async fn read_or_make(client: &Client, namespace: &str, name: &str) -> Result<SigningKey, Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let unread = |error| Error::Read(error, name.to_owned());
    if let Some(found) = secrets.get_opt(name).await.map_err(unread)? {
        return key(&found, name);
    }
    let new = secret(name, SigningKey::generate().map_err(Error::Generate)?);
    match secrets.create(&PostParams::default(), &new).await {
        Ok(made) => key(&made, name),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            key(&secrets.get(name).await.map_err(unread)?, name)
        }
        Err(error) => Err(Error::Create(error, name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response, StatusCode};
    use kube::client::Body;
    use serde_json::json;
    use std::sync::{Arc, Mutex};

    /// An apiserver on which somebody else makes the Secret when `raced`.
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
        read_or_make(client, "dragstrip-system", "key").await.unwrap().public()
    }

    #[tokio::test]
    async fn the_key_is_made_once_and_found_again() {
        let stored = Arc::default();
        let client = apiserver(&stored, None);
        let first = public(&client).await;
        assert_eq!(public(&client).await, first);
        assert_eq!(stored.lock().unwrap().as_ref().unwrap().immutable, Some(true));
    }

    #[tokio::test]
    async fn of_two_operators_that_start_at_once_both_take_the_key_of_the_first() {
        let first = SigningKey::generate().unwrap();
        let client = apiserver(&Arc::default(), Some(secret("key", first.clone())));
        assert_eq!(public(&client).await, SigningKey::read(&first).unwrap().public());
    }

    #[tokio::test]
    async fn what_is_no_key_is_told_and_left_alone() {
        let stored = Arc::new(Mutex::new(Some(Secret::default())));
        let told = read_or_make(&apiserver(&stored, None), "dragstrip-system", "key").await.unwrap_err();
        assert!(told.to_string().contains("delete it and restart the operator"), "{told}");
    }
}
