package main

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/commandtest"
	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/ci/require"
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
	fetched := u.Run(t, "fetch", "--all")
	fetched.Want(t, 0)
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
	r := u.Run(t, "--all", "--progress", "quiet", "--output", "oci:"+u.Path("dist"))
	r.Want(t, 3, "6 of 12 targets")
	assert.Equalf(t, 6, strings.Count(r.Stdout, "@sha256:"), "images that were built")
	for cause, most := range map[string]int{"do not allow to pull": 1, "535.101.01.run": 1} {
		if n := strings.Count(r.Stderr, cause); n != most {
			t.Errorf("%s is named %d times:\n%s", cause, n, r.Stderr)
		}
	}
	u.Fault(nil)
	again := u.Run(t, "--all", "--progress", "quiet", "--output", "oci:"+u.Path("dist"))
	again.Want(t, 0)
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

// thousand is a user with a matrix of 10 systems by 100 drivers.
func thousand(t *testing.T) *user {
	t.Helper()
	return &user{commandtest.In(t, imagetest.NewFleet(t, imagetest.Fleet{Systems: 10, Drivers: 100, Files: 20}), newRootCmd)}
}

// damage replaces the end of every file that a pattern names.
func damage(t *testing.T, pattern string) (files int) {
	t.Helper()
	for _, path := range require.Value(filepath.Glob(pattern))(t) {
		data := require.Value(os.ReadFile(path))(t)
		files++
		require.NoError(t, os.WriteFile(path, append(data[:len(data)/2], "damaged"...), 0o600))
	}
	return files
}

// TestThousandTargetsBad: of 1,000 targets, those of four systems cannot be planned, each for another reason,
// and what the cache knows of the others is damaged. The others are planned as before, and each reason is
// said once, with the targets that it hits.
func TestThousandTargetsBad(t *testing.T) {
	t.Parallel()
	u := thousand(t)
	good := u.Run(t, "--all", "--dry-run", "--progress", "quiet")
	good.Want(t, 0)
	for _, kind := range []string{"plan", "base", "document"} {
		if damage(t, filepath.Join(u.Cache, "keys", kind+"-*")) == 0 {
			t.Errorf("nothing to damage of the kind %s", kind)
		}
	}
	u.Archives["ubuntu20.04"].Find("kmod", "amd64").Control = u.Archives["ubuntu20.04"].Find("make", "amd64").Control
	u.Archives["ubuntu20.04"].Publish()
	u.Fault(func(rw http.ResponseWriter, r *http.Request) bool {
		for part, code := range map[string]int{"/bionic/": 500, "/base/ubuntu16.04": 403, "/base/ubuntu26.04": 500} {
			if strings.Contains(r.URL.Path, part) {
				http.Error(rw, "closed", code)
				return true
			}
		}
		return false
	})
	causes := map[string]string{
		"packages of ubuntu20.04 amd64: cannot resolve packages: kmod was asked for":         "ubuntu20.04",
		"registry " + u.Host + ": the credentials for it do not allow to pull":               "ubuntu16.04",
		"registry " + u.Host + ": it answered 500 Internal Server Error":                     "ubuntu26.04",
		"server " + u.Host + " after 2 tries: the server answered 500 Internal Server Error": "ubuntu18.04",
	}
	before := u.Requests("")
	r := u.Run(t, "--all", "--dry-run", "--progress", "quiet")
	r.Want(t, 3, "400 of 1000 targets")
	asked := u.Requests("") - before
	for cause, system := range causes {
		targets := fmt.Sprintf(": 100 targets: 535.100.01-%s, 535.101.01-%s, 535.102.01-%s and 97 more", system, system, system)
		line := ""
		for l := range strings.Lines(r.Stderr) {
			if strings.HasPrefix(l, cause) && strings.HasSuffix(strings.TrimSpace(l), targets) {
				line = l
			}
		}
		if line == "" || strings.Count(r.Stderr, cause) != 1 {
			t.Errorf("%q is not said once for its targets:\n%s", cause, r.Stderr)
		}
	}
	if lines := strings.Count(r.Stderr, "\n"); lines > 8 {
		t.Errorf("%d lines say four causes:\n%s", lines, r.Stderr)
	}
	if asked > 60 { // five a system, and the second tries
		t.Errorf("%d requests for 10 systems", asked)
	}
	planned := map[string]bool{}
	for line := range strings.Lines(r.Stdout) {
		if tag, ok := strings.CutPrefix(strings.TrimSpace(line), `"tag": "`); ok {
			planned[tag] = true
		}
	}
	assert.Equalf(t, 600, len(planned), "targets that were planned")
	if whole := strings.Join(strings.Fields(good.Stdout), " "); !strings.Contains(whole, strings.Join(strings.Fields(r.Stdout[:strings.Index(r.Stdout, "\n}\n")]), " ")) {
		t.Error("the first recipe is another one than with a cache that was not damaged")
	}
	u.tool(t, "lock --lock "+u.Path("bad.lock")).Want(t, 4)
	assert.Errorf(t, assert.Err(os.Stat(u.Path("bad.lock"))), "a lock that lacks targets")
}
