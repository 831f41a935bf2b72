//! The client: it counts and limits its requests, and gives up on those without a response.

use crate::metrics::counters::Metrics;
use futures::future::BoxFuture;
use http::{Request, Response};
use kube::client::{Body, ClientBuilder};
use std::{task, time::Duration};
use tokio::time::timeout;
use tower::{BoxError, Service, layer::layer_fn, limit::ConcurrencyLimitLayer};

/// Highest number of concurrent requests: the API server serves others too.
const MOST_IN_FLIGHT: usize = 64;

/// The API server gives up after a minute; a request without a response would block its caller forever.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(90);

/// Counts requests, by method and status, and those in flight. A request without a response in time
/// fails; the response of a watch is its begin.
#[derive(Clone)]
struct Counted<S> {
    inner: S,
    metrics: Metrics,
}

impl<S, B> Service<Request<Body>> for Counted<S>
where
    S: Service<Request<Body>, Response = Response<B>, Future: Send + 'static>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut task::Context<'_>) -> task::Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (method, metrics, in_flight) =
            (request.method().clone(), self.metrics.clone(), self.metrics.in_flight());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = timeout(RESPONSE_TIMEOUT, answer).await;
            let answer = answer.map_err(BoxError::from).and_then(|answer| answer.map_err(Into::into));
            drop(in_flight);
            let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            metrics.requested(method.as_str(), code);
            answer
        })
    }
}

pub fn counting_client(config: kube::Config, metrics: &Metrics) -> kube::Result<kube::Client> {
    let count = layer_fn(|inner| Counted { inner, metrics: metrics.clone() });
    let bound = ConcurrencyLimitLayer::new(MOST_IN_FLIGHT);
    Ok(ClientBuilder::try_from(config)?.with_layer(&count).with_layer(&bound).build())
}
