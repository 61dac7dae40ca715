package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/lab/wire"
)

const cgroups = "/sys/fs/cgroup"

// controllers enables for the children of a group the controllers that limits need.
func controllers(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+cpu +memory +pids"), 0o644); err != nil {
		return fmt.Errorf("cgroup controllers: %w", err)
	}
	return nil
}

// cgroupPath returns where kubelet with the systemd driver puts a container of a burstable pod.
func cgroupPath(s wire.Spec) string {
	pod := strings.ReplaceAll(s.PodUID, "-", "_")
	return filepath.Join(cgroups, "kubepods.slice/kubepods-burstable.slice", "kubepods-burstable-pod"+pod+".slice", "cri-containerd-"+s.ID+".scope")
}

// makeCgroup makes the container's group with its limits.
func makeCgroup(s wire.Spec) (string, error) {
	dir := cgroupPath(s)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	below, err := filepath.Rel(cgroups, filepath.Dir(dir))
	if err != nil {
		return "", err
	}
	at := cgroups
	for part := range strings.SplitSeq(below, "/") {
		at = filepath.Join(at, part)
		if err := controllers(at); err != nil {
			return "", err
		}
	}
	if s.Memory > 0 {
		if err := os.WriteFile(filepath.Join(dir, "memory.max"), []byte(strconv.FormatInt(s.Memory, 10)), 0o644); err != nil {
			return "", err
		}
	}
	if s.CPUs > 0 {
		text := fmt.Sprintf("%d 100000", int(s.CPUs*100000))
		if err := os.WriteFile(filepath.Join(dir, "cpu.max"), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// killCgroup kills everything in a group and removes the group. It kills the processes one by one, because
// cgroup.kill came with Linux 5.14.
func killCgroup(dir string, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			return nil
		}
		if err != nil {
			return err
		}
		pids := strings.Fields(string(text))
		for _, p := range pids {
			if pid, err := strconv.Atoi(p); err == nil && pid > 1 {
				_ = unix.Kill(pid, unix.SIGKILL) // it may have ended already
			}
		}
		if len(pids) == 0 {
			if err := removeGroups(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s still has processes %s after %s of SIGKILL", dir, strings.Join(pids, " "), limit)
		}
		pause(5 * time.Millisecond)
	}
}

// removeGroups removes a group and the groups that its processes made below it.
func removeGroups(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeGroups(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return unix.Rmdir(dir)
}
