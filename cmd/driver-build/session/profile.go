package session

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
)

// profiled runs f and writes a profile of the processor time of this process, for ci/bench; helpers and
// compilers are not in it.
func (a *App) profiled(f func() error) (err error) {
	if a.profile == "" {
		return f()
	}
	file, err := os.Create(a.profile)
	if err != nil {
		return Usage(fmt.Errorf("--cpu-profile: %w", err))
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return fmt.Errorf("start the profile: %w", err)
	}
	defer pprof.StopCPUProfile()
	return f()
}
