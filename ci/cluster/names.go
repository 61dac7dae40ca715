package cluster

import "time"

// The guest's own names and addresses; the files of its root (guest/) have the same ones.
const (
	NodeName      = "node"
	nodeIP        = "10.0.2.15"       // of eth0, QEMU's user network
	apiAddress    = "10.96.0.1"       // of the API in the cluster, on the node's lo
	guestRegistry = "10.0.2.100:5000" // this machine's registry as the guest sees it
	guestServer   = "https://127.0.0.1:443"
)

// The limits are about five times the durations on an idle machine.
const (
	requestLimit = 20 * time.Second
	bootLimit    = 5 * time.Minute  // from the agent's start until the node is Ready
	quietBoot    = 10 * time.Second // until the agent's start
	pullLimit    = 10 * time.Minute
	nodeLimit    = 2 * time.Minute // of a command on the node
)
