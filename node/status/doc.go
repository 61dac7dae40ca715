// Package status is what is known of the driver on a node: the snapshot that an instance keeps in the node's
// status file, the same in words with advice, the answers to the container's probes, and the marker files of
// the GPU Operator.
//
// Everything that only looks at a driver (probes, metrics, reports, driver-evict) needs this package and
// nothing else of the node's. It does not load, mount or compile anything.
package status
