// Package evict frees a node's GPUs for an upgrade of the driver. It waits until the driver of its
// own pod reports that another driver has to go first (the safe-load handshake). Then it cordons
// the node, pauses the daemons that use the driver through their deploy labels, evicts the pods
// that use GPUs, and lets the driver continue. It undoes its changes when the driver serves, when
// the driver fails, when the eviction fails, and at SIGTERM.
//
// Pods with claims of Dynamic Resource Allocation end before the other daemons are paused, and
// NVIDIA's kubelet plugin ends last: the kubelet needs it to release the devices of pods that end.
//
// A patch that changes the node also writes the state before the change into an annotation, and one
// patch undoes all changes. When the process is killed at any point, the next instance finds either
// nothing or all that it needs to undo the changes.
//
// An attempt that failed leaves in memory what made it fail. Another one does not begin while that
// is certain to make it fail again: while a pod has not ended, or while one is there that comes
// back to a cordoned node. The pause between attempts grows.
//
// Pods are evicted only through the eviction API, so that disruption budgets count. Pods of
// DaemonSets, static pods and finished pods are left alone. While the driver does not ask, the
// agent reads the driver's status file and sends nothing to the cluster.
//
// The package does not load or unload anything, does not read the node's processes, parses no flags
// and knows no exit codes.
package evict
