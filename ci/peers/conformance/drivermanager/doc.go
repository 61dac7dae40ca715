// Program drivermanager does to a node and its objects what NVIDIA's k8s-driver-manager v0.12 does as the
// init container of the GPU Operator 26.7's driver pods, with the same verbs, variables, order and exit
// codes. NVIDIA's own program is not available as a Go module where the tests are made; this one was written
// for them after its sources (cmd/driver-manager/main.go).
//
// usage: drivermanager uninstall_driver | preflight_check
//
// It is as blind as the original where that matters to a driver: it does not look for processes that hold the
// driver, goes on with the next module when one cannot be unloaded, detaches only the uppermost mount of the
// driver root, deletes NVIDIA's pid file although a driver may hold its lock, and gives labels that a node
// does not have the value "".
//
// Without KUBERNETES_SERVICE_HOST it does only what concerns the node, for guests without a cluster. It
// leaves out what the tests' nodes never have: nouveau, vfio-pci, Mellanox devices, resource claims.
// ENABLE_AUTO_DRAIN is false in the operator's DaemonSet.
package main
