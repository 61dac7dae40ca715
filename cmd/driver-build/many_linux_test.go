package main

import (
	"encoding/binary"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// manyTargets is a user with a matrix of 4 systems by 3 drivers.
func manyTargets(t *testing.T) *user {
	t.Helper()
	return &user{commandtest.In(t, imagetest.NewFleet(t, imagetest.Fleet{Systems: 4, Drivers: 3, Files: 20}), newRootCmd)}
}

const fleetTargets = 12

// uses counts what happens to the files of a folder.
type uses struct{ opened, renamed map[string]int }

// watch counts how often files of a folder are opened, and renamed into it, from the call on until the
// function that it returns is called.
func watch(t *testing.T, dir string) func() uses {
	t.Helper()
	fd := require.Value(unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK))(t)
	events := os.NewFile(uintptr(fd), "inotify")
	// Closing is watched too, because the kernel merges equal events that follow each other.
	require.Value(unix.InotifyAddWatch(fd, dir, unix.IN_OPEN|unix.IN_CLOSE|unix.IN_MOVED_TO|unix.IN_ONLYDIR))(t)
	count := uses{map[string]int{}, map[string]int{}}
	var reading sync.WaitGroup
	reading.Go(func() {
		buf := make([]byte, 1<<16)
		for {
			n, err := events.Read(buf)
			if err != nil { // closed
				return
			}
			for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
				mask, end := binary.NativeEndian.Uint32(b[4:]), unix.SizeofInotifyEvent+binary.NativeEndian.Uint32(b[12:])
				name := strings.TrimRight(string(b[unix.SizeofInotifyEvent:end]), "\x00")
				switch {
				case mask&unix.IN_Q_OVERFLOW != 0:
					t.Error("events were lost")
				case mask&unix.IN_OPEN != 0:
					count.opened[name]++
				case mask&unix.IN_MOVED_TO != 0:
					count.renamed[name]++
				}
				b = b[end:]
			}
		}
	})
	return func() uses {
		t.Helper()
		require.NoError(t, events.Close())
		reading.Wait()
		return count
	}
}

// TestManyReadOnce: for twelve images in one process each archive and each package is opened once, each layer
// is made once, and the network is asked about bases and indexes only.
func TestManyReadOnce(t *testing.T) {
	t.Parallel()
	u := manyTargets(t)
	fetched := u.Run(t, "fetch", "--all").Want(t, 0)
	inputs := map[string]string{} // digest: address
	for line := range strings.Lines(fetched.Stdout) {
		if words := strings.Fields(line); len(words) == 3 {
			inputs[strings.TrimPrefix(words[0], "sha256:")] = words[2]
		}
	}
	requests := u.Requests("")
	stop := watch(t, filepath.Join(u.Cache, "blobs", "sha256"))
	r := u.Run(t, "--all", "--output", "oci:"+u.Path("dist"))
	used := stop()
	opened, made := used.opened, used.renamed
	r.Want(t, 0)
	assert.Equalf(t, fleetTargets, strings.Count(r.Stdout, "@sha256:"), "images")
	archives, packages := 0, 0
	for digest, address := range inputs {
		if n := opened[digest]; n != 1 {
			t.Errorf("%s was opened %d times", address, n)
		}
		if strings.HasSuffix(address, ".run") {
			archives++
		} else {
			packages++
		}
	}
	if archives != 3 || packages < 4*5 {
		t.Errorf("%d archives and %d packages", archives, packages)
	}
	for digest, n := range made {
		if n != 1 {
			t.Errorf("the layer %s was made %d times", digest, n)
		}
	}
	// Packages of 4 systems, 2 layers of 3 drivers, the entrypoint, 12 descriptions, the outlines of these and of the
	// bases, and 12 lists of files.
	assert.Equalf(t, (4+2*3+1+12)*2+4+12, len(made), "layers and outlines")
	if got := u.Requests("") - requests; got > 4*5 {
		t.Errorf("%d requests for 4 systems", got)
	}
}

// TestManyFail: what cannot be built is reported once for each cause, and everything else is built.
func TestManyFail(t *testing.T) {
	t.Parallel()
	u := manyTargets(t)
	u.Fault(func(rw http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.Contains(r.URL.Path, "535.101.01"):
			http.NotFound(rw, r)
		case strings.Contains(r.URL.Path, "/base/debian13"):
			http.Error(rw, "closed", http.StatusForbidden)
		default:
			return false
		}
		return true
	})
	r := u.Run(t, "--all", "--progress", "quiet", "--output", "oci:"+u.Path("dist")).Want(t, 3, "6 of 12 targets")
	assert.Equalf(t, 6, strings.Count(r.Stdout, "@sha256:"), "images that were built")
	for cause, most := range map[string]int{"do not allow to pull": 1, "535.101.01.run": 1} {
		if n := strings.Count(r.Stderr, cause); n != most {
			t.Errorf("%s is named %d times:\n%s", cause, n, r.Stderr)
		}
	}
	u.Fault(nil)
	again := u.Run(t, "--all", "--progress", "quiet", "--output", "oci:"+u.Path("dist")).Want(t, 0)
	assert.Equalf(t, fleetTargets, strings.Count(again.Stdout, "@sha256:"), "images in the end")
}

// TestManyRequests: what a call asks of the network does not grow with the number of drivers.
func TestManyRequests(t *testing.T) {
	t.Parallel()
	u := manyTargets(t)
	u.Run(t, "--all", "--dry-run").Want(t, 0)
	asked := func(args string) int {
		t.Helper()
		before := u.Requests("")
		u.tool(t, args).Want(t, 0)
		return u.Requests("") - before
	}
	alone := asked("--dry-run --driver 535.100.01 --os debian12 --os debian13 --os ubuntu22.04 --os ubuntu24.04")
	for _, args := range []string{"--all --dry-run", "lock --lock " + u.Path("other.lock")} {
		assert.Equalf(t, alone, asked(args), "requests of %s", args)
	}
	assert.Equalf(t, 0, asked("report --releases none --html "+u.Path("page.html")), "a report without a registry")
}
