package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/programs"
	"github.com/driver-container/driver-container/images/recipe"
)

// What a build of one image takes at most, with some to spare: of the cache for base, packages, driver and
// layers, and of memory.
const (
	leastSpace  = 2 << 30
	leastMemory = 512 << 20
)

// Cache asks whether the folder can be written to, and has space.
func Cache(dir string) Question {
	return Question{
		Name: "cache", Fix: "name a folder that can be written to and has space, with --cache or DRIVER_BUILD_CACHE",
		Ask: func(context.Context) (string, error) {
			if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as fetch.OpenStore makes it
				return "", err
			}
			f, err := os.CreateTemp(dir, ".doctor-*")
			if err != nil {
				return "", err
			}
			_, err = f.WriteString("driver-build doctor\n")
			if err := errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
				return "", err
			}
			var st unix.Statfs_t
			if err := unix.Statfs(dir, &st); err != nil {
				return "", fmt.Errorf("ask for the space of %s: %w", dir, err)
			}
			free := st.Bavail * uint64(st.Bsize) //nolint:gosec // never negative
			if free < leastSpace {
				return "", fmt.Errorf("%s has %d MiB free, a build takes up to %d MiB", dir, free>>20, leastSpace>>20)
			}
			return fmt.Sprintf("%s can be written to, %.1f GiB are free", dir, float64(free)/(1<<30)), nil
		},
	}
}

// Memory asks for the limit of this process's control group. machine is the root of this machine's files.
func Memory(machine fs.FS) Question {
	return Question{
		Name: "memory", Fix: "raise the memory limit of the container or job",
		Ask: func(context.Context) (string, error) {
			raw, err := fs.ReadFile(machine, "sys/fs/cgroup/memory.max")
			text := strings.TrimSpace(string(raw))
			if err != nil || text == "max" { // version 1 of control groups, or none
				return "no limit of a control group", nil //nolint:nilerr // it asks for the limit only
			}
			limit, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return "", fmt.Errorf("read the limit of the control group: %w", err)
			}
			if limit < leastMemory {
				return "", fmt.Errorf("the control group may use %d MiB, a build takes up to %d MiB", limit>>20, leastMemory>>20)
			}
			return fmt.Sprintf("the control group may use %d MiB", limit>>20), nil
		},
	}
}

// Clock compares now with the time of this program's commit, zero if that is unknown. Certificates and
// signed indexes are judged by the clock.
func Clock(now, built time.Time) Question {
	return Question{
		Name: "clock", Fix: "set the clock of this machine: certificates and signed indexes are judged by it",
		Ask: func(context.Context) (string, error) {
			text := now.UTC().Format(time.RFC3339)
			if now.Before(built) {
				return "", fmt.Errorf("it is %s, before this program was made (%s)", text, built.UTC().Format(time.RFC3339))
			}
			return text, nil
		},
	}
}

// Programs asks for the programs that images of an architecture get.
func Programs(find batch.Programs, arch string) Question {
	return Question{
		Name: "programs " + arch, Fix: "take driver-build and its programs from one release or one build, in one folder",
		Ask: func(context.Context) (string, error) {
			found, err := find(arch)
			switch {
			case errors.Is(err, programs.ErrNotMade):
				return programs.ErrNotMade.Error(), nil
			case err != nil:
				return "", err
			}
			var names []string
			for _, b := range found {
				names = append(names, b.Name)
			}
			if len(found) < 1+len(recipe.OptionalPrograms()) {
				return strings.Join(names, ", ") + "; the others are left out (--allow-missing-programs)", nil
			}
			return strings.Join(names, ", "), nil
		},
	}
}
