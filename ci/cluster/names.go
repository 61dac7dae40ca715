package cluster

import "time"

// The guest's own names and addresses, which its root (guest/) has too.
const (
	NodeName      = "node"
	nodeIP        = "10.0.2.15"       // of eth0, QEMU's user network
	apiAddress    = "10.96.0.1"       // of the API in the cluster, on the node's lo
	guestRegistry = "10.0.2.100:5000" // this machine's registry as the guest sees it
	guestServer   = "https://127.0.0.1:443"
)

// Limits are some five times what was seen on a quiet machine.
const (
	bootLimit    = 20 * time.Minute
	restoreLimit = 5 * time.Minute
	quietRestore = 14 * time.Second
	pullLimit    = 10 * time.Minute
	nodeLimit    = 2 * time.Minute // of a command on the node
	plugLimit    = time.Minute
	pause        = 300 * time.Millisecond // between two questions
	// RolloutLimit is for a pod to be there and ready.
	RolloutLimit = 3 * time.Minute
)
