//go:build linux

package kmod

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/kmod/kmsg"
)

// podLogs is where the kubelet keeps the logs of pods, in folders NAMESPACE_NAME_UID. It is the only place on
// a node that names pods without the API server.
const (
	podLogs = "var/log/pods"
	maxPods = 1 << 14 // folders that are read; a kubelet allows some hundred pods
)

// Process returns command, container and pod uid of a process, without the pod's name and without files. PID
// is set even when the process has ended.
func (s System) Process(pid int) Holder {
	dir := s.proc(strconv.Itoa(pid))
	h := Holder{PID: pid, Command: kmsg.Printable(optional(dir + "/comm"))}
	if text, err := readSmall(dir+"/cgroup", maxCgroup); err == nil {
		h.Container, h.Pod = parseCgroup(text)
	}
	return h
}

// PodOf returns namespace and name of the pod with this uid; both "" where they are not known. It reads the
// root of process 1 (the host's root, if this program's pod has hostPID) and then this program's own root.
func (s System) PodOf(uid string) (namespace, name string) { return s.podNames()(uid) }

// podNames returns PodOf for several pods. The first call reads the folders.
func (s System) podNames() func(uid string) (namespace, name string) {
	var known map[string][2]string
	return func(uid string) (string, string) {
		if uid == "" {
			return "", ""
		}
		if known == nil {
			known = map[string][2]string{}
			for _, root := range []string{s.proc("1", "root"), cmp.Or(s.Root, "/")} {
				listPods(filepath.Join(root, podLogs), known)
			}
		}
		pod := known[uid]
		return pod[0], pod[1]
	}
}

// listPods adds the pods of a folder to a map from uid to namespace and name. It skips what it cannot read.
func listPods(dir string, to map[string][2]string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	names, err := d.Readdirnames(maxPods)
	if err != nil {
		return
	}
	for _, n := range names {
		if namespace, name, uid, ok := parsePodFolder(n); ok {
			if _, present := to[uid]; !present {
				to[uid] = [2]string{namespace, name}
			}
		}
	}
}

// parsePodFolder splits NAMESPACE_NAME_UID. No part may contain a _, and a part that is not a Kubernetes name
// is refused, so that it does not get into logs.
func parsePodFolder(folder string) (namespace, name, uid string, ok bool) {
	parts := strings.Split(folder, "_")
	if len(parts) != 3 {
		return "", "", "", false
	}
	namespace, name, uid = parts[0], parts[1], parts[2]
	return namespace, name, uid, isName(namespace) && isName(name) && podUID("pod"+uid) == uid
}

// isName reports whether s has only characters that names in Kubernetes have.
func isName(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return s != "" && len(s) <= 253
}
