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
		{leastData, leastAddressSpace, ""},
		{^uint64(0), ^uint64(0), ""},
		{leastData - 1, ^uint64(0), "511 MiB of memory (ulimit -d), but needs up to 512 MiB: raise the limit with ulimit -d 524288"},
		{^uint64(0), 1 << 30, "1024 MiB of memory (ulimit -v)"},
	} {
		err := checkMemory(func(resource int) (uint64, error) {
			if resource == syscall.RLIMIT_DATA {
				return c.data, nil
			}
			return c.space, nil
		})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("data %d, address space %d: %v; want %q", c.data, c.space, err, c.says)
		}
	}
	if _, err := resourceLimit(syscall.RLIMIT_DATA); err != nil {
		t.Error(err)
	}
}
