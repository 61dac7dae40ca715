//go:build linux

package kmod

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/kmod/kmsg"
)

// podLogs is where the kubelet keeps the logs of pods, in folders NAMESPACE_NAME_UID. It is the
// only place on a node that names pods without the API server.
const (
	podLogs = "var/log/pods"
	maxPods = 1 << 14 // folders that are read; a kubelet allows some hundred pods
)

// Process returns command, container and pod uid of a process, without the pod's name and without
// files. PID is set even when the process has ended.
func (s System) Process(pid int) Holder {
	dir := s.proc(strconv.Itoa(pid))
	h := Holder{PID: pid, Command: kmsg.Printable(optional(dir + "/comm"))}
	h.Container, h.Pod = parseCgroup(optional(dir + "/cgroup"))
	return h
}

// PodOf returns namespace and name of the pod with this uid; both "" where they are not known. It
// reads the root of process 1 (the host's root, if this program's pod has hostPID) and then this
// program's own root.
func (s System) PodOf(uid string) (namespace, name string) { return s.podNames()(uid) }

// podNames returns PodOf for several pods. The first call reads the folders.
func (s System) podNames() func(uid string) (namespace, name string) {
	known := sync.OnceValue(func() map[string][2]string {
		pods := map[string][2]string{}
		// what comes later counts
		for _, root := range []string{cmp.Or(s.Root, "/"), s.proc("1", "root")} {
			d, err := os.Open(filepath.Join(root, podLogs))
			if err != nil {
				continue
			}
			names, _ := d.Readdirnames(maxPods) //nolint:errcheck // what cannot be read is not known
			d.Close()
			for _, folder := range names {
				if m := podFolder().FindStringSubmatch(folder); m != nil {
					pods[m[3]] = [2]string{m[1], m[2]}
				}
			}
		}
		return pods
	})
	return func(uid string) (string, string) {
		if uid == "" {
			return "", ""
		}
		pod := known()[uid]
		return pod[0], pod[1]
	}
}

// podFolder matches NAMESPACE_NAME_UID. A part that is not a Kubernetes name does not match, so
// that it does not get into logs.
var podFolder = lazyregexp.New(
	`^([a-z0-9.-]{1,253})_([a-z0-9.-]{1,253})_(` + strings.ReplaceAll(podUID, "_", "") + `)$`,
)

// ProcStat is what /proc/PID/stat says of a process.
type ProcStat struct {
	Parent int
	Dead   bool   // it has ended, and its parent does not know yet
	Begun  string // when it was started, in ticks since the boot
}

// ParseStat parses such a file. The command's name may contain anything, so the fields are counted
// after the last parenthesis: the state is the third of the line, the start time the 22nd.
func ParseStat(text []byte) (stat ProcStat, ok bool) {
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return ProcStat{}, false
	}
	parent, err := strconv.ParseUint(string(f[1]), 10, 31)
	if err != nil {
		return ProcStat{}, false
	}
	dead := f[0][0] == 'Z' || f[0][0] == 'X'
	return ProcStat{Parent: int(parent), Dead: dead, Begun: string(f[19])}, true
}
