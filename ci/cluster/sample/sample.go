// Package sample takes samples of a driver's state on a node and judges them by rules that hold at all times,
// whatever happens to containers:
//
//   - only one instance has the node's lock
//   - the driver root has the loaded version, and exists as long as a module is loaded
//   - an instance whose status is "serving" has loaded the version that it names, and serves it once
//
// It only reads files.
package sample

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Sample is the state of a node at one time.
type Sample struct {
	At      time.Time `json:"at"` // the node's clock
	State   string    `json:"state"`
	Ready   bool      `json:"ready"`
	Pod     string    `json:"pod"`
	Up      string    `json:"up"`      // the running version, as the status names it
	Loaded  string    `json:"loaded"`  // version of the kernel's module nvidia
	Root    []string  `json:"root"`    // versions of libnvidia-ml in the driver root
	Mounts  int       `json:"mounts"`  // at the driver root itself
	Lockers []string  `json:"lockers"` // processes that have the node's lock
}

// Same says whether the samples differ in nothing except the time.
func (s Sample) Same(o Sample) bool {
	return s.State == o.State && s.Ready == o.Ready && s.Pod == o.Pod && s.Up == o.Up && s.Loaded == o.Loaded && s.Mounts == o.Mounts &&
		slices.Equal(s.Root, o.Root) && slices.Equal(s.Lockers, o.Lockers)
}

// Taker takes samples of one node. It remembers what is expensive to read and changes rarely.
type Taker struct {
	Root string // "/" except in tests

	libraries os.FileInfo // of the folder that versions describes
	versions  []string
	lockers   []string
	looks     int
}

// Take takes one sample. The sample shows one moment: if something changed meanwhile, ok is false.
func (t *Taker) Take() (s Sample, ok bool) {
	const rarely = 8 // how many samples use one reading of the processes, unless the status changed
	before := status(t.Root)
	s = before
	s.Loaded = loaded(t.Root)
	s.Root = t.rootVersions()
	s.Mounts = mounts(t.Root)
	if loaded(t.Root) != s.Loaded || !status(t.Root).Same(before) {
		t.looks = 0
		return s, false
	}
	if t.looks%rarely == 0 {
		t.lockers = lockers(t.Root)
	}
	t.looks++
	s.Lockers = t.lockers
	s.At = time.Now()
	return s, true
}

// rootVersions returns the versions of the libraries in the driver root, by which consumers find out the
// driver's version.
func (t *Taker) rootVersions() []string {
	const library, folders = "libnvidia-ml.so.", "run/nvidia/driver/usr/lib/*-linux-gnu"
	dirs, _ := filepath.Glob(filepath.Join(t.Root, folders))
	if len(dirs) != 1 {
		t.libraries = nil
		return nil
	}
	st, err := os.Stat(dirs[0])
	if err != nil {
		return nil
	}
	if t.libraries != nil && os.SameFile(st, t.libraries) && st.ModTime().Equal(t.libraries.ModTime()) {
		return t.versions
	}
	found, _ := filepath.Glob(filepath.Join(dirs[0], library+"*.*"))
	for i, path := range found {
		found[i] = strings.TrimPrefix(filepath.Base(path), library)
	}
	t.libraries, t.versions = st, found
	return found
}

func status(root string) Sample {
	data, err := os.ReadFile(filepath.Join(root, "run/nvidia/driver-status.json"))
	if err != nil {
		return Sample{}
	}
	var st struct {
		State, Pod string
		Ready      bool
		Up         *struct{ Version string }
	}
	if json.Unmarshal(data, &st) != nil {
		return Sample{State: "unreadable"}
	}
	s := Sample{State: st.State, Ready: st.Ready, Pod: st.Pod}
	if st.Up != nil {
		s.Up = st.Up.Version
	}
	return s
}

func loaded(root string) string {
	data, err := os.ReadFile(filepath.Join(root, "sys/module/nvidia/version"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func mounts(root string) int {
	data, _ := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	n := 0
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == "/run/nvidia/driver" {
			n++
		}
	}
	return n
}

// lockers returns the processes that hold a lock on /run/nvidia/driver-entrypoint.lock, or on an earlier file
// at that path, as the kernel shows it with their open files.
func lockers(root string) []string {
	fds, _ := filepath.Glob(filepath.Join(root, "proc/[0-9]*/comm"))
	var found []string
	for _, comm := range fds {
		name, _ := os.ReadFile(comm)
		if n := strings.TrimSpace(string(name)); n != "nvidia-driver" && n != "driver-entrypoi" {
			continue
		}
		dir := filepath.Dir(comm)
		links, _ := filepath.Glob(filepath.Join(dir, "fd/*"))
		for _, link := range links {
			target, _ := os.Readlink(link)
			if !strings.HasPrefix(target, "/run/nvidia/driver-entrypoint.lock") {
				continue
			}
			info, _ := os.ReadFile(filepath.Join(dir, "fdinfo", filepath.Base(link)))
			if strings.Contains(string(info), "FLOCK") {
				found = append(found, filepath.Base(dir))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// Judge returns the rules that a sample violates.
func (s Sample) Judge() []string {
	var wrong []string
	say := func(format string, args ...any) {
		at := s.At.Format("15:04:05.000")
		wrong = append(wrong, at+": "+fmt.Sprintf(format, args...)+fmt.Sprintf(" (%+v)", s))
	}
	if len(s.Lockers) > 1 {
		say("several processes have the node's lock")
	}
	if s.Loaded != "" && !slices.Equal(s.Root, []string{s.Loaded}) {
		say("%s is loaded, but the driver root has %v", s.Loaded, s.Root)
	}
	if s.State == "serving" || s.Ready {
		if s.Loaded == "" {
			say("serving without modules")
		}
		if s.Up != s.Loaded {
			say("serving %q, but %q is loaded", s.Up, s.Loaded)
		}
		if s.Mounts > 1 {
			say("%d driver roots are mounted", s.Mounts)
		}
	}
	return wrong
}
