// Package cluster is a real Kubernetes with one node for tests: a guest of the lab in which etcd,
// the control plane, kubelet and containerd run. It has a fake GPU (package images/rehearse/gpu) on which
// NVIDIA's real kernel modules load. Tests drive the cluster with kubectl, helm and commands as
// root on the node.
//
// A cache keeps the guest's disk; what a cluster changes ends with it.
//
// There is no kube-proxy and no DNS: services do not work, except the API's, 10.96.0.1. No graphics
// adapter ever initialises: drivers run with DRIVER_GPU_INIT=warn and DRIVER_PERSISTENCE=false.
//
// The package's functions end the test when an error occurs, and every wait has a limit.
package cluster
