# shellcheck shell=bash
# Certificates, etcd and the Kubernetes control plane, as plain processes.
# DRAGSTRIP_BIND and DRAGSTRIP_PORTS move another control plane (see
# ../without-kubelets) to that address and by so many ports.

readonly APISERVER_BIND=${DRAGSTRIP_BIND:-$APISERVER_IP}
readonly APISERVER_PORT=$((6443 + ${DRAGSTRIP_PORTS:-0}))
readonly ETCD_PORT=$((2379 + ${DRAGSTRIP_PORTS:-0}))
readonly ETCD_PEER_PORT=$((2380 + ${DRAGSTRIP_PORTS:-0}))
readonly CONTROLLER_MANAGER_PORT=$((10257 + ${DRAGSTRIP_PORTS:-0}))
readonly SCHEDULER_PORT=$((10259 + ${DRAGSTRIP_PORTS:-0}))

kubeadm_config() {
  cat <<END
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: $APISERVER_IP, bindPort: $APISERVER_PORT}
nodeRegistration: {name: $(node_name "$1"), criSocket: "unix://$(node_dir "$1")/containerd.sock"}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: $KUBERNETES_VERSION
certificatesDir: $PKI
controlPlaneEndpoint: $APISERVER_BIND:$APISERVER_PORT
encryptionAlgorithm: ECDSA-P256
networking: {serviceSubnet: $SERVICE_RANGE, podSubnet: $BRIDGE_RANGE, dnsDomain: cluster.local}
END
}

kubeadm() { "$BIN/kubeadm" "$@" >>"$LOGS/kubeadm.log" 2>&1 || die "kubeadm $* failed: see $LOGS/kubeadm.log"; }

make_pki() {
  [[ ! -e $PKI/complete ]] || return 0
  mkdir -p "$PKI" "$CONF" "$LOGS"
  local node
  for node in "${NODES[@]}"; do kubeadm_config "$node" >"$CONF/kubeadm-$node.yaml"; done
  local config=$CONF/kubeadm-${NODES[0]}.yaml
  kubeadm init phase certs all --config "$config"
  kubeadm init phase kubeconfig all --config "$config" --kubeconfig-dir "$PKI"
  for node in "${NODES[@]}"; do
    kubeadm init phase kubeconfig kubelet --config "$CONF/kubeadm-$node.yaml" --kubeconfig-dir "$PKI/$node"
  done
  "$BIN/kubeadm" kubeconfig user --config "$config" --client-name system:kube-proxy >"$PKI/kube-proxy.conf" 2>>"$LOGS/kubeadm.log"
  install -m 0644 "$PKI/admin.conf" "$STATE/kubeconfig"
  touch "$PKI/complete"
}

# A clock set back, or a year gone by, invalidates stored certificates.
pki_valid() {
  local certificate from
  for certificate in "$PKI"/ca.crt "$PKI"/apiserver.crt; do
    openssl x509 -in "$certificate" -noout -checkend 86400 >/dev/null || return 1
    from=$(openssl x509 -in "$certificate" -noout -startdate)
    (($(date +%s) >= $(date -d "${from#*=}" +%s))) || return 1
  done
}

start_etcd() {
  local files=(--cert-file "$PKI/etcd/server.crt" --key-file "$PKI/etcd/server.key" --trusted-ca-file "$PKI/etcd/ca.crt")
  start_process etcd "$BIN/etcd" --name testbed --data-dir "$STATE/etcd" --unsafe-no-fsync --log-level warn \
    --client-cert-auth "${files[@]}" \
    --listen-client-urls "https://127.0.0.1:$ETCD_PORT" --advertise-client-urls "https://127.0.0.1:$ETCD_PORT" \
    --listen-peer-urls "http://127.0.0.1:$ETCD_PEER_PORT" --initial-advertise-peer-urls "http://127.0.0.1:$ETCD_PEER_PORT" \
    --initial-cluster "testbed=http://127.0.0.1:$ETCD_PEER_PORT"
}

# start_apiserver [OPTION...]
start_apiserver() {
  start_process apiserver "$BIN/kube-apiserver" \
    --advertise-address "$APISERVER_IP" --bind-address "$APISERVER_BIND" --secure-port "$APISERVER_PORT" \
    --tls-cert-file "$PKI/apiserver.crt" --tls-private-key-file "$PKI/apiserver.key" --client-ca-file "$PKI/ca.crt" \
    --etcd-servers "https://127.0.0.1:$ETCD_PORT" --etcd-cafile "$PKI/etcd/ca.crt" \
    --etcd-certfile "$PKI/apiserver-etcd-client.crt" --etcd-keyfile "$PKI/apiserver-etcd-client.key" \
    --kubelet-client-certificate "$PKI/apiserver-kubelet-client.crt" \
    --kubelet-client-key "$PKI/apiserver-kubelet-client.key" --kubelet-preferred-address-types InternalIP \
    --service-account-issuer https://kubernetes.default.svc.cluster.local \
    --service-account-key-file "$PKI/sa.pub" --service-account-signing-key-file "$PKI/sa.key" \
    --requestheader-client-ca-file "$PKI/front-proxy-ca.crt" --requestheader-allowed-names front-proxy-client \
    --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
    --requestheader-extra-headers-prefix X-Remote-Extra- \
    --proxy-client-cert-file "$PKI/front-proxy-client.crt" --proxy-client-key-file "$PKI/front-proxy-client.key" \
    --service-cluster-ip-range "$SERVICE_RANGE" --authorization-mode Node,RBAC \
    --enable-admission-plugins NodeRestriction --allow-privileged \
    --feature-gates MutatingAdmissionPolicy=true --runtime-config admissionregistration.k8s.io/v1beta1=true "$@"
}

# start_controller_manager [OPTION...]
start_controller_manager() {
  start_process controller-manager "$BIN/kube-controller-manager" \
    --kubeconfig "$PKI/controller-manager.conf" --authentication-kubeconfig "$PKI/controller-manager.conf" \
    --authorization-kubeconfig "$PKI/controller-manager.conf" \
    --bind-address 127.0.0.1 --secure-port "$CONTROLLER_MANAGER_PORT" \
    --client-ca-file "$PKI/ca.crt" --requestheader-client-ca-file "$PKI/front-proxy-ca.crt" \
    --cluster-signing-cert-file "$PKI/ca.crt" --cluster-signing-key-file "$PKI/ca.key" --root-ca-file "$PKI/ca.crt" \
    --service-account-private-key-file "$PKI/sa.key" --use-service-account-credentials \
    --cluster-cidr "$BRIDGE_RANGE" --service-cluster-ip-range "$SERVICE_RANGE" --leader-elect=false \
    --node-monitor-grace-period 12s --node-monitor-period 2s --kube-api-qps 200 --kube-api-burst 400 "$@"
}

start_scheduler() {
  start_process scheduler "$BIN/kube-scheduler" \
    --kubeconfig "$PKI/scheduler.conf" --authentication-kubeconfig "$PKI/scheduler.conf" \
    --authorization-kubeconfig "$PKI/scheduler.conf" \
    --bind-address 127.0.0.1 --secure-port "$SCHEDULER_PORT" --leader-elect=false \
    --kube-api-qps 200 --kube-api-burst 400
}

# One kube-proxy serves all nodes: they share the machine's packet rules.
start_kube_proxy() {
  # It ends itself when its configuration file is written, changed or not.
  if running kube-proxy; then return; fi
  cat >"$CONF/kube-proxy.yaml" <<END
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: "$PKI/kube-proxy.conf", qps: 200, burst: 400}
mode: iptables
clusterCIDR: $BRIDGE_RANGE
hostnameOverride: $(node_name "${NODES[0]}")
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
iptables: {minSyncPeriod: 100ms}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
END
  start_process kube-proxy "$BIN/kube-proxy" --config "$CONF/kube-proxy.yaml"
}

etcd_ready() {
  curl -sf --max-time 2 --cacert "$PKI/etcd/ca.crt" --cert "$PKI/etcd/healthcheck-client.crt" \
    --key "$PKI/etcd/healthcheck-client.key" "https://127.0.0.1:$ETCD_PORT/readyz"
}

apiserver_ready() { curl -sf --max-time 2 --cacert "$PKI/ca.crt" "https://$APISERVER_BIND:$APISERVER_PORT/readyz"; }
controller_manager_ready() { curl -skf --max-time 2 "https://127.0.0.1:$CONTROLLER_MANAGER_PORT/healthz"; }
scheduler_ready() { curl -skf --max-time 2 "https://127.0.0.1:$SCHEDULER_PORT/readyz"; }
kube_proxy_ready() { curl -sf --max-time 2 http://127.0.0.1:10256/livez; }

await_etcd() { await_process etcd 20 "etcd's readiness" etcd_ready; }
await_apiserver() { await_process apiserver 60 "the apiserver's readiness" apiserver_ready; }
await_controller_manager() { await_process controller-manager 60 "the controller manager's health" controller_manager_ready; }
await_scheduler() { await_process scheduler 60 "the scheduler's readiness" scheduler_ready; }
await_kube_proxy() { await_process kube-proxy 60 "kube-proxy's health" kube_proxy_ready; }

grant_admin() {
  kube get clusterrolebinding kubeadm:cluster-admins >/dev/null 2>&1 ||
    kube create clusterrolebinding kubeadm:cluster-admins --clusterrole=cluster-admin --group=kubeadm:cluster-admins >/dev/null
}
