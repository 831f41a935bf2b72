//! What is shipped for EKS, held against the schemas of those who read it, and the
//! flagship example on nodes as EKS makes them. Run by `make test-eks` on a Kubernetes
//! without kubelets: nothing here needs AWS.

mod flagship;
mod machines;
mod manifests;
mod player;
