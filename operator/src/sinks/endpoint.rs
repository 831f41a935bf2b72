//! A server beside the cluster: one HTTP request at a time, with credentials from files
//! that may change while the operator runs. Redirects are not followed, an answer is
//! bounded in size and time, and no connection outlives it. Touches the network and
//! those files.

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri,
    header::{AUTHORIZATION, InvalidHeaderName, InvalidHeaderValue, RETRY_AFTER, USER_AGENT},
};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use jiff::{Timestamp, fmt::rfc2822};
use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};
use tokio_rustls::rustls::{
    self, ClientConfig, RootCertStore,
    pki_types::{
        CertificateDer,
        pem::{self, PemObject},
    },
};

/// How long a request may take, its answer included.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// Bytes of an answer that are read.
const ANSWER_BYTES: usize = 256 * 1024;
/// Characters of an answer that are told.
const TOLD_CHARACTERS: usize = 300;
/// A server is not obeyed that wants to be left alone for longer.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(600);

/// A step of setting an endpoint up, or of asking it, that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its URL cannot be used. It is not repeated here: it may hold a password.
    #[error("its URL is not http://HOST[:PORT][/PATH] or https://..., without user, password and query")]
    Url,
    /// A file of its credentials is there and cannot be read.
    #[error("failed to read {1}")]
    ReadFile(#[source] std::io::Error, PathBuf),
    /// No credentials are where they should be.
    #[error("{0} has neither token nor both username and password")]
    NoCredentials(PathBuf),
    /// A file of its credentials has something that no header can have.
    #[error("{1} has something that a header cannot have")]
    Credentials(#[source] InvalidHeaderValue, PathBuf),
    /// Its authority is no certificate.
    #[error("{1} holds no certificates as PEM")]
    Authority(#[source] pem::Error, PathBuf),
    /// Its authority's certificate cannot be used.
    #[error("the certificates of {1} cannot be used")]
    Trust(#[source] rustls::Error, PathBuf),
    /// TLS could not be set up.
    #[error("failed to set up TLS")]
    Tls(#[source] rustls::Error),
    /// The request could not be made.
    #[error("failed to make a request of {1}")]
    Request(#[source] http::Error, String),
    /// No connection, or no answer.
    #[error("failed to reach {1}")]
    Unreachable(#[source] hyper_util::client::legacy::Error, String),
    /// No answer in time.
    #[error("{0} did not answer within {1:?}")]
    Silent(String, Duration),
    /// The answer was cut short, or is longer than [`ANSWER_BYTES`].
    #[error("failed to read the answer of {1}")]
    Answer(#[source] Box<dyn std::error::Error + Send + Sync>, String),
}

/// A header that is sent with each request.
#[derive(Debug, Clone)]
pub struct Header(HeaderName, HeaderValue);

/// A text that is no header.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    /// There is no `=` in it.
    #[error("a header is NAME=VALUE")]
    NoValue,
    /// Its name cannot be one.
    #[error("a header cannot have this name")]
    Name(#[source] InvalidHeaderName),
    /// Its value cannot be one.
    #[error("a header cannot have this value")]
    Value(#[source] InvalidHeaderValue),
}

impl FromStr for Header {
    type Err = HeaderError;

    fn from_str(text: &str) -> Result<Self, HeaderError> {
        let (name, value) = text.split_once('=').ok_or(HeaderError::NoValue)?;
        Ok(Self(name.parse().map_err(HeaderError::Name)?, value.parse().map_err(HeaderError::Value)?))
    }
}

/// What a server answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// How long it wants to be left alone.
    pub retry_after: Option<Duration>,
    /// All of its body.
    pub body: Bytes,
}

impl Answer {
    /// Its status and the beginning of its body, on one line for people.
    pub fn told(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        let words = body.split_whitespace().collect::<Vec<_>>().join(" ");
        let body: String = words.chars().take(TOLD_CHARACTERS).collect();
        if body.is_empty() { self.status.to_string() } else { format!("{}: {body}", self.status) }
    }
}

/// The server, and how to talk to it.
pub struct Endpoint {
    url: String,
    credentials: Option<PathBuf>,
    headers: HeaderMap,
    answer_within: Duration,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// The content of the file called `name`, without spaces around it; none where there is no such file.
fn file(directory: &Path, name: &str) -> Result<Option<String>, Error> {
    let path = directory.join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::ReadFile(error, path)),
    }
}

/// What says who asks, by the files in `directory`.
fn authorization(directory: &Path) -> Result<HeaderValue, Error> {
    let text = match (file(directory, "token")?, file(directory, "username")?, file(directory, "password")?) {
        (Some(token), ..) => format!("Bearer {token}"),
        (None, Some(username), Some(password)) => {
            format!("Basic {}", BASE64_STANDARD.encode(format!("{username}:{password}")))
        }
        _ => return Err(Error::NoCredentials(directory.to_owned())),
    };
    let mut value =
        HeaderValue::try_from(text).map_err(|error| Error::Credentials(error, directory.to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Whom to believe: the authorities that Mozilla trusts, and that of `ca.crt` in
/// `directory` where there is one. The image holds none.
fn authorities(directory: Option<&Path>) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
    let Some(directory) = directory else { return Ok(store) };
    let path = directory.join("ca.crt");
    for certificate in file(directory, "ca.crt")?.iter().flat_map(|pem| certificates(pem)) {
        let certificate = certificate.map_err(|error| Error::Authority(error, path.clone()))?;
        store.add(certificate).map_err(|error| Error::Trust(error, path.clone()))?;
    }
    Ok(store)
}

/// The certificates of `pem`, or that there are none.
fn certificates(pem: &str) -> Vec<Result<CertificateDer<'static>, pem::Error>> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    if found.is_empty() { vec![Err(pem::Error::NoItemsFound)] } else { found }
}

fn connector(authorities: RootCertStore) -> Result<HttpsConnector<HttpConnector>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let tls = tls.map_err(Error::Tls)?.with_root_certificates(authorities).with_no_client_auth();
    Ok(HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build())
}

/// How long a server wants to be left alone: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    let asked = if let Ok(seconds) = text.parse() {
        Duration::from_secs(seconds)
    } else {
        let until = rfc2822::parse(text).ok()?.timestamp();
        Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO)
    };
    Some(asked.min(LONGEST_RETRY_AFTER))
}

impl Endpoint {
    /// The server at `url`, with the credentials in a directory, which must be there.
    pub fn new(url: &str, credentials: Option<PathBuf>, headers: Vec<Header>) -> Result<Self, Error> {
        let uri: Uri = url.parse().map_err(|_| Error::Url)?;
        let https = uri.scheme_str() == Some("https");
        let known = https || uri.scheme_str() == Some("http");
        let authority =
            uri.authority().filter(|found| known && !found.host().is_empty()).ok_or(Error::Url)?;
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err(Error::Url);
        }
        if let Some(directory) = &credentials {
            authorization(directory)?;
        }
        let trusted = if https { authorities(credentials.as_deref())? } else { RootCertStore::empty() };
        let client =
            Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector(trusted)?);
        let mut all: HeaderMap = headers.into_iter().map(|Header(name, value)| (name, value)).collect();
        let agent = concat!("dragstrip-operator/", env!("CARGO_PKG_VERSION"));
        all.insert(USER_AGENT, HeaderValue::from_static(agent));
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            credentials,
            headers: all,
            answer_within: ANSWER_WITHIN,
            client,
        })
    }

    /// Sends one request to the URL with `path` behind it, and reads the answer.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, &'static str)],
        body: impl Into<Bytes> + Send,
    ) -> Result<Answer, Error> {
        let url = format!("{}{path}", self.url);
        let failed = |error| Error::Request(error, url.clone());
        let mut request =
            Request::builder().method(method).uri(&url).body(Full::new(body.into())).map_err(failed)?;
        *request.headers_mut() = self.headers.clone();
        for (name, value) in headers {
            request.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        if let Some(directory) = &self.credentials {
            request.headers_mut().insert(AUTHORIZATION, authorization(directory)?);
        }
        match tokio::time::timeout(self.answer_within, self.answer(request, &url)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Silent(url, self.answer_within)),
        }
    }

    async fn answer(&self, request: Request<Full<Bytes>>, url: &str) -> Result<Answer, Error> {
        let unreachable = |error| Error::Unreachable(error, url.to_owned());
        let response = self.client.request(request).await.map_err(unreachable)?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| Error::Answer(error, url.to_owned()))?.to_bytes();
        let retry_after = retry_after(&head.headers, Timestamp::now());
        Ok(Answer { status: head.status, retry_after, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinks::fixtures::Server;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(directory.path().join(name), content).unwrap();
        }
        directory
    }

    fn refused(url: &str, files: Option<&[(&str, &str)]>) -> String {
        let held = files.map(directory);
        let path = held.as_ref().map(|held| held.path().to_owned());
        crate::process::chain(&Endpoint::new(url, path, vec![]).err().unwrap())
    }

    #[test]
    fn a_url_that_cannot_be_used_is_refused_at_the_start_and_not_repeated() {
        for url in
            ["prometheus:9090/api", "ftp://host", "/api/v1/write", "http://", "http://a b", "http://h/?q=1"]
        {
            assert!(refused(url, None).contains("its URL is not http://HOST"), "{url} was taken");
        }
        let told = refused("https://admin:secret@grafana", None);
        assert!(told.contains("its URL is not") && !told.contains("secret"), "{told}");
        assert!(Endpoint::new("http://[fd00::7]:9090/api/v1/write", None, vec![]).is_ok());
    }

    #[test]
    fn credentials_that_are_not_whole_are_refused_at_the_start() {
        for files in [&[][..], &[("username", "a")], &[("token", " \n")]] {
            let told = refused("http://host", Some(files));
            assert!(told.contains("neither token nor both username and password"), "{files:?}: {told}");
        }
        assert!(refused("http://host", Some(&[("token", "a\nb")])).contains("a header cannot have"));
        let told = refused("https://host", Some(&[("token", "a"), ("ca.crt", "no certificate")]));
        assert!(told.contains("ca.crt holds no certificates as PEM"), "{told}");
    }

    #[test]
    fn a_token_or_a_password_says_who_asks() {
        let token = directory(&[("token", "glsa_x\n"), ("username", "u"), ("password", "p")]);
        assert_eq!(authorization(token.path()).unwrap(), "Bearer glsa_x");
        let password = directory(&[("username", "Aladdin"), ("password", "open sesame\n")]);
        assert_eq!(authorization(password.path()).unwrap(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert!(authorization(password.path()).unwrap().is_sensitive(), "it would be logged");
    }

    #[test]
    fn a_server_says_in_seconds_or_by_a_date_how_long_to_leave_it_alone() {
        let now = "2015-10-21T07:27:30Z".parse().unwrap();
        let asked = |text: &str| {
            retry_after(&HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::try_from(text).unwrap())]), now)
        };
        assert_eq!(asked("7"), Some(Duration::from_secs(7)));
        assert_eq!(asked("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(asked("Wed, 21 Oct 2015 07:00:00 GMT"), Some(Duration::ZERO), "it is over");
        assert_eq!(asked("86400"), Some(LONGEST_RETRY_AFTER));
        assert_eq!(asked("soon"), None);
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    async fn asked(server: &Server) -> Result<Answer, Error> {
        let mut endpoint = Endpoint::new(&server.url, None, vec![]).unwrap();
        endpoint.answer_within = Duration::from_millis(300);
        endpoint.ask(Method::GET, "/path", &[], "").await
    }

    #[tokio::test]
    async fn a_server_that_is_slow_talks_too_much_or_is_not_there_is_left() {
        let slow = Server::answering(|_| async {
            std::future::pending::<()>().await;
            (200, String::new())
        });
        let slow = slow.await;
        assert!(matches!(asked(&slow).await, Err(Error::Silent(..))));
        let endless = Server::answering(|_| async { (200, "x".repeat(ANSWER_BYTES + 1)) }).await;
        assert!(matches!(asked(&endless).await, Err(Error::Answer(..))));
        let mut gone = endless;
        gone.url = "http://127.0.0.1:1".into();
        assert!(matches!(asked(&gone).await, Err(Error::Unreachable(..))));
    }

    #[tokio::test]
    async fn a_redirect_is_an_answer_and_credentials_are_read_for_each_request() {
        let server = Server::answering(|_| async { (307, "elsewhere\n".to_owned()) }).await;
        let held = directory(&[("token", "first")]);
        let endpoint = Endpoint::new(&server.url, Some(held.path().to_owned()), vec![]).unwrap();
        for token in ["first", "second"] {
            std::fs::write(held.path().join("token"), token).unwrap();
            let answer = endpoint.ask(Method::GET, "/path", &[], "").await.unwrap();
            assert_eq!(answer.told(), "307 Temporary Redirect: elsewhere");
        }
        let sent = server.asked().into_iter().map(|asked| asked.headers[AUTHORIZATION].clone());
        assert_eq!(sent.collect::<Vec<_>>(), ["Bearer first", "Bearer second"]);
    }

    /// A server on localhost that answers one request over TLS, and the authority to believe.
    async fn encrypted() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
            while let Ok((stream, _)) = listener.accept().await {
                // A client that does not believe goes.
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0, "no request came");
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await.unwrap();
            }
        });
        (url, made.cert.pem())
    }

    #[tokio::test]
    async fn a_private_authority_is_believed_only_where_its_certificate_is_with_the_credentials() {
        let (url, authority) = encrypted().await;
        let ask = async |files: &[(&str, &str)]| {
            let held = directory(files);
            let endpoint = Endpoint::new(&url, Some(held.path().to_owned()), vec![]).unwrap();
            endpoint.ask(Method::GET, "/", &[], "").await
        };
        let answer = ask(&[("token", "a"), ("ca.crt", &authority)]).await.unwrap();
        assert_eq!(answer.told(), "200 OK: hi");
        let told = crate::process::chain(&ask(&[("token", "a")]).await.unwrap_err());
        assert!(told.contains("invalid peer certificate"), "{told}");
    }

    #[test]
    fn a_header_is_a_name_and_a_value() {
        let Header(name, value) = "X-Scope-OrgID=races=1".parse().unwrap();
        assert_eq!((name.as_str(), value.to_str().unwrap()), ("x-scope-orgid", "races=1"));
        for text in ["X-Scope-OrgID", "X Scope=races", "X-Scope=a\nb"] {
            assert!(text.parse::<Header>().is_err(), "{text:?} was taken");
        }
    }
}
