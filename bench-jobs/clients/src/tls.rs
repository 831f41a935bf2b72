//! TLS of the libraries: one cryptography provider for all of them.

/// Makes *ring* the provider of this process, unless one is chosen already.
pub(crate) fn choose_provider() {
    // An error only says that there is one.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
}
