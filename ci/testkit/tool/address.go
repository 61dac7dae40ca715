package tool

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// UnusedAddress returns an address, 127.0.0.1:PORT, on which no process listens, for a program that
// must be told its port. The port lies below those that the kernel hands out by itself (by default
// net.ipv4.ip_local_port_range begins at 32768), so no other client or server gets it meanwhile.
func UnusedAddress(t testing.TB) string {
	t.Helper()
	var err error
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)) //nolint:gosec // any of them
		var l net.Listener
		l, err = net.Listen("tcp4", address) //nolint:noctx // it listens at once
		if err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatalf("find a port of 127.0.0.1 that no process listens on, in 100 tries: %v", err)
	return ""
}
