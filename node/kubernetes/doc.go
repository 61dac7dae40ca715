// Package kubernetes is what the programs of a driver's pod do in a cluster: a small client for
// Events, the labels, taints, annotations and a condition of their node, and a Reporter that tells
// the cluster the driver's status. It uses plain HTTPS with the pod's service account; a client
// library would be larger than the rest of the program.
//
// Every call is one request with a deadline and a limit for the size of the answer. The client
// keeps no goroutine, and repeats only a change of a node that another client was faster with.
//
// A Reporter follows the status in its own goroutine and looks only at the latest state, so that
// nothing queues up and no phase of the driver's life waits for a server. A report that fails is
// logged once; the driver continues without it. The package does not decide when a driver counts as
// serving.
package kubernetes
