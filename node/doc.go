// Package node runs the life of a driver on one node: it takes the node's lock, removes what a
// predecessor left half done, finds or compiles the kernel modules, serves the driver root, loads
// the modules, keeps the daemons running, and takes everything down again or leaves it whole for a
// successor.
//
// The order of a start is the list in start.go. Each phase adds what it puts up to one list of
// steps, with how to take it down; a failed start and a stop run that list backwards. Nothing that
// works is taken down before its replacement is ready and its holders are known.
//
// The phases reach the machine through the interfaces of machine.go; package node/host has the real
// implementations. The state of the node is in node/status. This package does not parse flags, know
// exit codes or talk to Kubernetes.
package node
