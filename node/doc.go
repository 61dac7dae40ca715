// Package node is the life of a driver on one node: it takes the node's lock, recovers what a predecessor left, finds or
// compiles the kernel modules, serves the driver root, loads the modules, keeps the daemons running, and takes everything
// down again or hands it over whole.
//
// The order of a start is a table (phases.go); whatever a phase puts up it can take down, and a failed start and a stop run
// the same list backwards. Nothing that works is taken down before its replacement is ready and its holders are known.
//
// What the phases stand on is elsewhere: kernel modules in kmod, mounts in node/driverroot, the lock in node/lock, child
// processes in node/daemons and node/probe. This package does not parse flags, know exit codes or talk to Kubernetes.
package node
