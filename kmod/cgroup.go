package kmod

import (
	"regexp"
	"strings"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// podUID matches a UUID (systemd paths have _ for -), or the 32 hex digits of a static pod.
const podUID = `[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}`

var (
	// cgroupPod matches the last element of a pod in a path: its uid follows "pod" at the beginning
	// or after a "-".
	cgroupPod = lazyregexp.New(`^(?:.*/)?(?:[^/:]*-)?pod(` + podUID + `)(?:\.slice)?(?:[:/].*)?$`)
	// cgroupContainer matches the last 64 hex digits at the end of an element, after a prefix that
	// names the runtime.
	cgroupContainer = lazyregexp.New(`^(?:.*[/:-])?([0-9a-f]{64})(?:\.scope)?(?:/.*)?$`)
)

// parseCgroup finds the container and the pod of a process in the text of /proc/PID/cgroup
// ("number:controllers:path" lines for cgroup v1, one line for v2). It knows the paths that
// containerd, CRI-O, Docker and Podman use, under Kubernetes' cgroupfs and systemd drivers and
// without Kubernetes. A result is "" where the text names none. Of nested containers the innermost
// counts.
//
//	/kubepods/burstable/pod<uid>/<id>
//	/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid with _>.slice/cri-containerd-<id>.scope
//	/system.slice/containerd.service/kubepods-burstable-pod<uid with _>.slice:cri-containerd:<id>
//	/kubepods.slice/kubepods-pod<uid with _>.slice/crio-<id>.scope/container
//	/docker/<id>, /system.slice/docker-<id>.scope, /machine.slice/libpod-<id>.scope
func parseCgroup(text string) (container, pod string) {
	for line := range strings.SplitSeq(text, "\n") {
		c, at := group(cgroupContainer(), line)
		p, podAt := group(cgroupPod(), line)
		if podAt > at { // no container in that pod
			c = ""
		}
		p = strings.ReplaceAll(p, "_", "-")
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

// group returns what the first group of an expression matches, and where; -1 without a match.
func group(expression *regexp.Regexp, text string) (match string, at int) {
	found := expression.FindStringSubmatchIndex(text)
	if found == nil {
		return "", -1
	}
	return text[found[2]:found[3]], found[2]
}
