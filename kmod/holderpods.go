package kmod

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// podLogs is where the kubelet keeps the logs of pods, in folders NAMESPACE_NAME_UID: the one place on a node that names pods without
// asking the API server.
const (
	podLogs = "var/log/pods"
	maxPods = 1 << 14 // folders that are looked at; a kubelet allows some hundred pods
)

// Process is what is known of a process: command, container and pod, without names of the pod and without files. PID is set even when
// the process is gone.
func (s System) Process(pid int) Holder {
	dir := s.proc(strconv.Itoa(pid))
	h := Holder{PID: pid, Command: printable(optional(dir + "/comm"))}
	if text, err := readSmall(dir+"/cgroup", maxCgroup); err == nil {
		h.Container, h.Pod = parseCgroup(text)
	}
	return h
}

// PodOf gives the namespace and the name of a pod, by its uid; "" where they are not known. It looks at the host's root, which process 1
// has where the pod of this program has hostPID, and at this program's own.
func (s System) PodOf(uid string) (namespace, name string) { return s.podNames()(uid) }

// podNames is PodOf for several pods; the folders are read when the first one is asked for.
func (s System) podNames() func(uid string) (namespace, name string) {
	var known map[string][2]string
	return func(uid string) (string, string) {
		if uid == "" {
			return "", ""
		}
		if known == nil {
			known = map[string][2]string{}
			for _, root := range []string{s.proc("1", "root"), or(s.Root, "/")} {
				listPods(filepath.Join(root, podLogs), known)
			}
		}
		pod := known[uid]
		return pod[0], pod[1]
	}
}

// listPods adds the pods of a folder; what cannot be read adds none.
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
			if _, there := to[uid]; !there {
				to[uid] = [2]string{namespace, name}
			}
		}
	}
}

// parsePodFolder takes NAMESPACE_NAME_UID apart: neither part may have a _ in it, and what is no Kubernetes name does not go to logs.
func parsePodFolder(folder string) (namespace, name, uid string, ok bool) {
	parts := strings.Split(folder, "_")
	if len(parts) != 3 {
		return "", "", "", false
	}
	namespace, name, uid = parts[0], parts[1], parts[2]
	return namespace, name, uid, isName(namespace) && isName(name) && podUID("pod"+uid) == uid
}

// isName says whether a text is made of what names in Kubernetes are made of.
func isName(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return s != "" && len(s) <= 253
}
