package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
)

// heap keeps the collector ahead of the decoders' buffers: a build stays below 300 MB whatever the driver's
// size. It is a soft limit, and GOMEMLIMIT overrides it.
const heap = 200 << 20

// The lowest limits under which every command works: of the data of a process (ulimit -d), to which its heap
// and the stacks of its threads count, and of its address space (ulimit -v), of which Go reserves much more
// than it uses.
const (
	leastData         = 512 << 20
	leastAddressSpace = 2 << 30
)

// limitMemory limits the heap, and refuses limits of memory under which commands would fail in the middle.
func limitMemory() error {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heap)
	}
	return checkMemory(resourceLimit)
}

// checkMemory refuses limits below these before the work begins. When memory runs out later, Go's runtime
// ends the process with a trace and exit code 2.
func checkMemory(limit func(resource int) (bytes uint64, err error)) error {
	for _, l := range []struct {
		resource int
		ulimit   string
		least    uint64
	}{{syscall.RLIMIT_DATA, "-d", leastData}, {syscall.RLIMIT_AS, "-v", leastAddressSpace}} {
		have, err := limit(l.resource)
		if err != nil {
			return fmt.Errorf("read this process's limit of memory: %w", err)
		}
		if have < l.least {
			return fmt.Errorf("this process may use %d MiB of memory (ulimit %s), but needs up to %d MiB: raise the limit with ulimit %s %d",
				have>>20, l.ulimit, l.least>>20, l.ulimit, l.least>>10)
		}
	}
	return nil
}

func resourceLimit(resource int) (uint64, error) {
	var l syscall.Rlimit
	err := syscall.Getrlimit(resource, &l)
	return l.Cur, err
}
