package main

import (
	"strings"
	"syscall"
	"testing"
)

func TestMemoryLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		data, space uint64
		says        string
	}{
		{512 << 20, 2 << 30, ""},
		{512<<20 - 1, ^uint64(0), "511 MiB of memory (ulimit -d), but needs up to 512 MiB: raise the limit with ulimit -d 524288"},
		{^uint64(0), 1 << 30, "1024 MiB of memory (ulimit -v)"},
	} {
		err := checkMemory(func(resource int, l *syscall.Rlimit) error {
			l.Cur = map[int]uint64{syscall.RLIMIT_DATA: c.data, syscall.RLIMIT_AS: c.space}[resource]
			return nil
		})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("data %d, address space %d: %v; want %q", c.data, c.space, err, c.says)
		}
	}
}
