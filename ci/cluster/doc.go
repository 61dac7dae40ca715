// Package cluster is a real Kubernetes with one node for tests: a QEMU guest (emulated, so no /dev/kvm is needed) in which etcd, the
// control plane, kubelet and containerd run, and where a fake GPU (package lab/fakegpu) is plugged in on which NVIDIA's real kernel
// modules load. Tests drive it with kubectl, helm and a root shell on the node.
//
// The guest is booted once: its state with the node Ready, and then with the images pulled, is kept in a cache, and each test is a
// fresh copy of that within seconds. What tests do to a cluster is gone with it.
//
// There is no kube-proxy and no DNS: services do not work but for the API's, 10.96.0.1. The clock stands at the time of the snapshot. No
// graphics adapter ever initialises: drivers run with DRIVER_GPU_INIT=warn and DRIVER_PERSISTENCE=false.
//
// Its functions end the test when something goes wrong, and every wait has a limit.
package cluster
