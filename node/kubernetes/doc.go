// Package kubernetes is a small client for what a driver's pod writes to a cluster: Events, a condition of
// its node, and the annotation of the safe-load handshake. It uses plain HTTPS with the pod's service
// account; a client library would be larger than the rest of the program.
//
// Every call is one request with a deadline and a limit for the size of the answer. The package keeps no
// goroutine and repeats nothing by itself. The caller (package node/report) decides what to write, when, and
// what a refusal means.
package kubernetes
