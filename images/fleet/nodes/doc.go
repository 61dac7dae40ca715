// Package nodes reads what the machines of a fleet say of themselves: the nodes of a cluster, as
// `kubectl get nodes -o json` prints them, or the answers of hosts without a cluster. One type goes in, a
// stream, one comes out, [Node].
//
// It decides nothing: which driver a node gets is package fleet's business. It keeps of each node what such a
// decision needs, so that a list of 10,000 nodes costs the memory of their labels and not of their JSON.
//
// What an API server checks (names, labels, taints) makes the whole list wrong if it is wrong. What only the
// machine itself says (kernel, system) makes one node unusable: see [Node.Fault].
package nodes
