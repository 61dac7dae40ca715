// Package status holds the state of the driver on a node: the snapshot that an instance keeps in
// the node's status file, the same as text with advice, the answers to the container's probes, and
// the marker files of the GPU Operator.
//
// Programs that only observe a driver (probes, metrics, reports, driver-evict) need this package
// and no other package of the node's. It does not load, mount or compile anything.
package status
