// Package control starts the control plane of a real Kubernetes on this machine, without nodes:
// etcd and kube-apiserver and, if asked, kube-controller-manager, kube-scheduler and kwok, which
// simulates the kubelets of any number of nodes. Tests use it for everything that an API server
// decides: schemas, admission, Pod Security, RBAC, roll-outs, Helm's releases.
//
// The programs are those of ci/cluster/tools (Bin builds them when they are missing). Everything
// listens on loopback or on a socket in a temporary folder. Each process ends with the test, also
// when the test binary is killed. PKI makes the certificates and kubeconfigs; the guest of package
// cluster uses them as well.
//
// Its tests are those of programs that talk to an API server: driver-evict with real controllers
// and scheduler, what a driver's pod reports and may change, and how driver-build reaches a daemon
// in a pod. What a driver really does belongs to ci/cluster/journeys.
//
// It runs no container and has no kubelet: tests with pods that really start belong to package
// cluster.
package control
