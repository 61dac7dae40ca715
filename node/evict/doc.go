// Package evict frees a node's GPUs for an upgrade of the driver. It waits until the driver of its own pod says that another
// driver has to go first (the safe-load handshake); then it cordons the node, pauses the daemons that use the driver by their
// deploy labels, evicts the pods that use GPUs, lets the driver go on, and puts all of it back when the driver serves, when it
// fails, when the eviction fails, and at SIGTERM.
//
// What it changes on the node is one patch together with an annotation that says what was there before, and one patch takes both
// back: killed at any point, the next instance finds either nothing or all that it needs in order to put things back.
//
// Pods are evicted through the eviction API alone, so that budgets count; pods of DaemonSets, static pods and finished pods are
// left alone. While nothing is asked it looks at the driver's status file and never at the cluster.
//
// It does not load or unload anything, does not look at the node's processes, knows no DRA claims, parses no flags and knows no
// exit codes.
package evict
