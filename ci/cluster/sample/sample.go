// Package sample takes and judges samples of a driver's state on a node: the state table that holds whatever happens to containers.
//
//   - only one instance has the node's lock
//   - the driver root is of the version that is loaded, and is there as long as something is loaded
//   - whoever says "serving" has loaded and serves what it says, once
//
// It reads files and nothing else.
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

// Sample is what was seen at one time.
type Sample struct {
	At      time.Time `json:"at"` // the node's clock
	State   string    `json:"state"`
	Ready   bool      `json:"ready"`
	Pod     string    `json:"pod"`
	Up      string    `json:"up"`      // version that the status says is up
	Loaded  string    `json:"loaded"`  // version of the kernel's module nvidia
	Root    []string  `json:"root"`    // versions of libnvidia-ml in the driver root
	Mounts  int       `json:"mounts"`  // at the driver root itself
	Lockers []string  `json:"lockers"` // processes that have the node's lock
}

// Same says whether nothing but the time differs.
func (s Sample) Same(o Sample) bool {
	return s.State == o.State && s.Ready == o.Ready && s.Pod == o.Pod && s.Up == o.Up && s.Loaded == o.Loaded && s.Mounts == o.Mounts &&
		slices.Equal(s.Root, o.Root) && slices.Equal(s.Lockers, o.Lockers)
}

// Take looks once; root is "/" but in tests. What is seen is of one moment: if something changed meanwhile, ok is false.
func Take(root string) (s Sample, ok bool) {
	before := status(root)
	s = before
	s.Loaded = loaded(root)
	s.Root = versions(root)
	s.Mounts = mounts(root)
	if loaded(root) != s.Loaded || !status(root).Same(before) {
		return s, false
	}
	s.Lockers = lockers(root)
	s.At = time.Now()
	return s, true
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

// versions are of the libraries, as consumers find out the driver's version.
func versions(root string) []string {
	const library = "libnvidia-ml.so."
	found, _ := filepath.Glob(filepath.Join(root, "run/nvidia/driver/usr/lib/*/"+library+"*.*"))
	for i, path := range found {
		found[i] = strings.TrimPrefix(filepath.Base(path), library)
	}
	return found
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

// lockers are the processes that locked /run/nvidia/driver-entrypoint.lock or a file that was there before, as the kernel shows it with
// their open files.
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

// Judge says what of the table a sample violates.
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
