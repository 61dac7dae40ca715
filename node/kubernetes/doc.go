// Package kubernetes says to a cluster's API server the little that a driver's pod has to say: Events, a condition of its node, and the
// annotation of the safe-load handshake. It is plain HTTPS with the pod's service account; a client library would be larger than the
// rest of the program.
//
// Every call is one request with a deadline, and nothing is read that a server may make larger than it should be. The package keeps no
// goroutine and repeats nothing by itself; what to say, when, and what a refusal means is the caller's business (package node/report).
package kubernetes
