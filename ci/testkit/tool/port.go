package tool

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// UnusedPort returns a port of 127.0.0.1 on which no process listens, for a program that must be told
// its port. It lies below those of net.ipv4.ip_local_port_range, which the kernel hands out itself: no
// client, and no server that leaves the choice to the kernel, takes it before the program does.
func UnusedPort(t testing.TB) int {
	t.Helper()
	var err error
	for range 100 {
		port := 20000 + rand.IntN(12000) //nolint:gosec // any of them
		var l net.Listener
		l, err = net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port)) //nolint:noctx // it listens at once
		if err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatalf("find a port of 127.0.0.1 that no process listens on, in 100 tries: %v", err)
	return 0
}
