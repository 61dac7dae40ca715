// Package cluster is a real Kubernetes with one node for tests: a QEMU guest (emulated, so no /dev/kvm is
// needed) in which etcd, the control plane, kubelet and containerd run. Tests can plug in a fake GPU (package
// lab/qemu) on which NVIDIA's real kernel modules load. They drive the cluster with kubectl, helm and
// commands as root on the node.
//
// The guest is booted once. A cache keeps its state when the node is Ready, and again when the images are
// pulled, and each test starts a fresh copy of that state within seconds. Changes that tests make to a
// cluster end with it.
//
// There is no kube-proxy and no DNS: services do not work, except the API's, 10.96.0.1. The clock starts at
// the time of the snapshot. No graphics adapter ever initialises: drivers run with DRIVER_GPU_INIT=warn and
// DRIVER_PERSISTENCE=false.
//
// The package's functions end the test when an error occurs, and every wait has a limit.
package cluster
