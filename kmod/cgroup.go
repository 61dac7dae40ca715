package kmod

import "strings"

// maxCgroup bounds /proc/PID/cgroup, in bytes. The file has a dozen lines with one path each.
const maxCgroup = 1 << 17

// parseCgroup finds the container and the pod of a process in the text of /proc/PID/cgroup
// ("number:controllers:path" lines for cgroup v1, one line for v2). It knows the paths that containerd,
// CRI-O, Docker and Podman use, under Kubernetes' cgroupfs and systemd drivers and without Kubernetes. A
// result is "" where the text names none. Of nested containers the innermost counts.
//
//	/kubepods/burstable/pod<uid>/<id>
//	/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid with _>.slice/cri-containerd-<id>.scope
//	/system.slice/containerd.service/kubepods-burstable-pod<uid with _>.slice:cri-containerd:<id>
//	/kubepods.slice/kubepods-pod<uid with _>.slice/crio-<id>.scope/container
//	/docker/<id>, /system.slice/docker-<id>.scope, /machine.slice/libpod-<id>.scope
func parseCgroup(text string) (container, pod string) {
	for line := range strings.SplitSeq(text, "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) != 3 {
			continue
		}
		c, p := parseCgroupPath(fields[2])
		if c != "" && p != "" {
			return c, p
		}
		if container == "" {
			container = c
		}
		if pod == "" {
			pod = p
		}
	}
	return container, pod
}

// parseCgroupPath looks at the elements of a path, the innermost first. A pod counts only when it encloses
// the container.
func parseCgroupPath(path string) (container, pod string) {
	for path != "" {
		i := strings.LastIndexByte(path, '/')
		element := path[i+1:]
		path = path[:max(i, 0)]
		if container == "" {
			container = containerID(element)
		}
		if pod = podUID(element); pod != "" {
			return container, pod
		}
	}
	return container, ""
}

// containerID returns the 64 hex digits at the end of an element, after a prefix that names the runtime; ""
// without them.
func containerID(element string) string {
	element = strings.TrimSuffix(element, ".scope")
	id := element[strings.LastIndexAny(element, ":-")+1:]
	if len(id) != 64 || !isHex(id) {
		return ""
	}
	return id
}

// podUID returns what follows "pod" at the beginning of an element or after a "-": a UUID (systemd paths have
// _ for -), or the 32 hex digits of a static pod.
func podUID(element string) string {
	element, _, _ = strings.Cut(element, ":")
	element = strings.TrimSuffix(element, ".slice")
	uid, ok := strings.CutPrefix(element, "pod")
	if i := strings.LastIndex(element, "-pod"); i >= 0 {
		uid, ok = element[i+len("-pod"):], true
	}
	if !ok {
		return ""
	}
	uid = strings.ReplaceAll(uid, "_", "-")
	if len(uid) == 32 && isHex(uid) {
		return uid
	}
	if len(uid) != 36 {
		return ""
	}
	for i := range len(uid) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (uid[i] == '-') {
			return ""
		}
	}
	if !isHex(strings.ReplaceAll(uid, "-", "")) {
		return ""
	}
	return uid
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s != ""
}
