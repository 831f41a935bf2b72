//! What the cloud's instance metadata service says of this machine, asked by its second
//! version (a token first). Touches the network at one address, and the termination log.

use dragstrip_results::protocol::MachineMetadata;
use reqwest::{Client, RequestBuilder, StatusCode, redirect::Policy};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// How long each answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Bytes of an answer at most: names and a token.
const LONGEST_ANSWER: usize = 1024;
/// How long the token is good for.
const TOKEN_SECONDS: &str = "60";

/// The service could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No HTTP client could be made.
    #[error("failed to make an HTTP client")]
    Client(#[source] reqwest::Error),
    /// It did not answer, or not in time.
    #[error("the metadata service does not answer to {1}")]
    Unreachable(#[source] reqwest::Error, &'static str),
    /// It answered with an error.
    #[error("the metadata service answers {0} to {1}")]
    Refused(StatusCode, &'static str),
    /// It has no tokens: it is no service of the second version.
    #[error("the metadata service gives no token")]
    NoToken,
    /// The answer is no name.
    #[error("the metadata service's answer to {0} is too long or no text")]
    Unreadable(&'static str),
    /// What it told is no JSON.
    #[error("what the metadata service told cannot be written as JSON")]
    Encode(#[source] serde_json::Error),
    /// The termination message could not be written.
    #[error("the termination message cannot be written to {1}")]
    Write(#[source] std::io::Error, PathBuf),
}

/// The answer to `request` for `path`; `None` where there is no such thing.
async fn answer(request: RequestBuilder, path: &'static str) -> Result<Option<String>, Error> {
    let mut response = request.send().await.map_err(|error| Error::Unreachable(error, path))?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Ok(None),
        status => return Err(Error::Refused(status, path)),
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| Error::Unreachable(error, path))? {
        if bytes.len() + chunk.len() > LONGEST_ANSWER {
            return Err(Error::Unreadable(path));
        }
        bytes.extend_from_slice(&chunk);
    }
    let text = String::from_utf8(bytes).map_err(|_| Error::Unreadable(path))?;
    let text = text.trim();
    if text.is_empty() || !text.chars().all(|letter| letter.is_ascii_graphic()) {
        return Err(Error::Unreadable(path));
    }
    Ok(Some(text.to_owned()))
}

/// What the service at `address`, such as `http://169.254.169.254`, says of this machine.
pub async fn ask(address: &str) -> Result<MachineMetadata, Error> {
    // Its answers are for this machine alone: no proxy, no other place.
    let client = Client::builder().no_proxy().redirect(Policy::none()).timeout(ANSWER_WITHIN);
    let client = client.build().map_err(Error::Client)?;
    let token = client
        .put(format!("{address}/latest/api/token"))
        .header("X-aws-ec2-metadata-token-ttl-seconds", TOKEN_SECONDS);
    let token = answer(token, "api/token").await?.ok_or(Error::NoToken)?;
    let about = |path: &'static str| {
        let request = client
            .get(format!("{address}/latest/meta-data/{path}"))
            .header("X-aws-ec2-metadata-token", &token);
        answer(request, path)
    };
    Ok(MachineMetadata {
        placement_group: about("placement/group-name").await?,
        zone_id: about("placement/availability-zone-id").await?,
        instance_type: about("instance-type").await?,
    })
}

/// Asks the service at `address` and leaves the answer as JSON in `termination_log`.
pub async fn tell(address: &str, termination_log: &Path) -> Result<(), Error> {
    let told = serde_json::to_string(&ask(address).await?).map_err(Error::Encode)?;
    std::fs::write(termination_log, told).map_err(|error| Error::Write(error, termination_log.to_path_buf()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    /// A service by the documented contract: a token for a PUT with a lifetime, answers only
    /// with the token, 404 for what there is not. `told` has the answers by path.
    async fn service(told: &'static [(&'static str, &'static str)]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let mut read = vec![0; 4096];
                let mut request = String::new();
                while !request.contains("\r\n\r\n") {
                    let count = connection.read(&mut read).await.unwrap();
                    if count == 0 {
                        break;
                    }
                    request.push_str(&String::from_utf8_lossy(&read[..count]).to_lowercase());
                }
                let answer = respond(&request, told);
                connection.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        address
    }

    fn respond(request: &str, told: &[(&str, &str)]) -> String {
        let status = |line: &str, body: &str| {
            format!("HTTP/1.1 {line}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
        };
        if request.starts_with("put /latest/api/token ") {
            let lifetime =
                request.lines().find_map(|line| line.strip_prefix("x-aws-ec2-metadata-token-ttl-seconds: "));
            let valid = lifetime
                .and_then(|text| text.parse().ok())
                .is_some_and(|ttl: u32| (1..=21600).contains(&ttl));
            return if valid { status("200 OK", "dG9rZW4=") } else { status("400 Bad Request", "") };
        }
        if !request.contains("x-aws-ec2-metadata-token: dg9rzw4=") {
            return status("401 Unauthorized", "");
        }
        let found =
            told.iter().find(|(path, _)| request.starts_with(&format!("get /latest/meta-data/{path} ")));
        match found {
            Some((_, "REDIRECT")) => {
                "HTTP/1.1 302 Found\r\nlocation: /latest/api/token\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned()
            }
            Some((_, "LONG")) => status("200 OK", &"a".repeat(2000)),
            Some((_, body)) => status("200 OK", body),
            None => status("404 Not Found", "<html>not found</html>"),
        }
    }

    const PLACE: [(&str, &str); 3] = [
        ("placement/group-name", "cluster-1"),
        ("placement/availability-zone-id", "use1-az4"),
        ("instance-type", "c7gn.16xlarge"),
    ];

    #[tokio::test]
    async fn group_zone_and_type_are_asked_with_a_token() {
        let told = ask(&service(&PLACE).await).await.unwrap();
        assert_eq!(told.placement_group.as_deref(), Some("cluster-1"));
        assert_eq!(told.zone_id.as_deref(), Some("use1-az4"));
        assert_eq!(told.instance_type.as_deref(), Some("c7gn.16xlarge"));
    }

    #[tokio::test]
    async fn a_machine_in_no_group_is_told_as_that() {
        const NO_GROUP: [(&str, &str); 2] = [PLACE[1], PLACE[2]];
        let told = ask(&service(&NO_GROUP).await).await.unwrap();
        assert_eq!((told.placement_group, told.zone_id.as_deref()), (None, Some("use1-az4")));
    }

    #[tokio::test]
    async fn no_redirect_is_followed_and_no_answer_is_longer_than_a_name() {
        let redirected = ask(&service(&[("placement/group-name", "REDIRECT")]).await).await.unwrap_err();
        assert!(matches!(redirected, Error::Refused(StatusCode::FOUND, _)), "{redirected}");
        let long = ask(&service(&[("placement/group-name", "LONG")]).await).await.unwrap_err();
        assert!(matches!(long, Error::Unreadable("placement/group-name")), "{long}");
    }

    #[tokio::test]
    async fn a_service_that_is_not_there_is_an_error_and_nothing_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let error = tell(&address, &log).await.unwrap_err();
        assert!(error.to_string().contains("does not answer to api/token"), "{error}");
        assert!(!log.exists());
        tell(&service(&PLACE).await, &log).await.unwrap();
        let told = std::fs::read_to_string(&log).unwrap();
        assert_eq!(
            told,
            r#"{"placementGroup":"cluster-1","zoneId":"use1-az4","instanceType":"c7gn.16xlarge"}"#
        );
    }
}
