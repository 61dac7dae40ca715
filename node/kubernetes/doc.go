// Package kubernetes is a small client for what the programs of a driver's pod do in a cluster: Events, the
// labels, taints, annotations and a condition of their node, and, for driver-evict, requests of its own. It uses
// plain HTTPS with the pod's service account; a client library would be larger than the rest of the program.
//
// Every call is one request with a deadline and a limit for the size of the answer. The package keeps no
// goroutine, and repeats only a change of a node that another client was faster with. The callers (packages
// node/report, node/evict) decide what to write, when, and what a refusal means.
package kubernetes
