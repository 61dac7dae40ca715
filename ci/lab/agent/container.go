package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/lab/wire"
)

// The folders are those of containerd.
const (
	tasks     = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
	snapshots = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots"
)

// prepare sets p.cmd, and for a container makes its group and root file system.
func (s *server) prepare(p *process) error {
	spec := p.spec
	if spec.Join != "" {
		return s.join(p)
	}
	if spec.Image == "" {
		p.cmd = exec.Command(spec.Args[0], spec.Args[1:]...)
		p.cmd.Env, p.cmd.Dir = spec.Env, spec.Dir
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return nil
	}
	group, err := makeCgroup(spec)
	if err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	p.cgroup = group
	if err := p.makeRoot(); err != nil {
		return err
	}
	for _, b := range spec.Binds {
		if err := makeSource(b); err != nil {
			return err
		}
	}
	flags := uintptr(unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC)
	if spec.OwnPIDs {
		flags |= unix.CLONE_NEWPID
	}
	return p.self(roleContainer, flags)
}

// self sets p.cmd to this program in another role; the process starts in the container's group.
func (p *process) self(role string, flags uintptr) error {
	group, err := os.Open(p.cgroup)
	if err != nil {
		return err
	}
	p.cmd = exec.Command(labDir+"/agent", role)
	p.cmd.Env = []string{"GOMAXPROCS=1"}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: flags, UseCgroupFD: true, CgroupFD: int(group.Fd())}
	p.group = group
	return nil
}

func (s *server) join(p *process) error {
	target, err := s.process(p.spec.Join)
	if err != nil {
		return err
	}
	if target.cgroup == "" {
		return errors.New("exec: " + p.spec.Join + " is not a container")
	}
	p.cgroup = target.cgroup
	p.spec.Join = fmt.Sprint(target.cmd.Process.Pid)
	return p.self(roleEnter, 0)
}

// makeRoot mounts the container's root file system where the host sees it, as containerd does.
func (p *process) makeRoot() error {
	upper := filepath.Join(snapshots, p.spec.ID)
	if p.spec.UpperMB > 0 {
		if err := (mount{"tmpfs", upper, "tmpfs", 0, fmt.Sprintf("size=%dm", p.spec.UpperMB)}).do(); err != nil {
			return err
		}
	}
	for _, dir := range []string{"fs", "work"} {
		if err := os.MkdirAll(filepath.Join(upper, dir), 0o755); err != nil {
			return err
		}
	}
	root := filepath.Join(tasks, p.spec.ID, "rootfs")
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s/fs,workdir=%s/work", p.spec.Image, upper, upper)
	if err := (mount{"overlay", root, "overlay", 0, layers}).do(); err != nil {
		return err
	}
	p.root = root
	return nil
}

func makeSource(b wire.Bind) error {
	if _, err := os.Stat(b.Host); err == nil {
		return nil
	}
	if !b.File {
		return os.MkdirAll(b.Host, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(b.Host), 0o755); err != nil {
		return err
	}
	return os.WriteFile(b.Host, nil, 0o666)
}

// cleanup ends the processes of the container and unmounts its root. The upper layer exists until the
// container is removed: a bind mount of the root works until then, and is stale afterwards.
func (p *process) cleanup(remove bool) error {
	if p.spec.Image == "" {
		return nil
	}
	p.once.Do(func() {
		if p.cgroup != "" {
			p.clean = killCgroup(p.cgroup, killLimit)
		}
		if p.root != "" {
			p.clean = errors.Join(p.clean, unix.Unmount(p.root, unix.MNT_DETACH), os.RemoveAll(filepath.Dir(p.root)))
		}
	})
	if !remove {
		return p.clean
	}
	upper := filepath.Join(snapshots, p.spec.ID)
	if p.spec.UpperMB > 0 {
		_ = unix.Unmount(upper, unix.MNT_DETACH) // a second call finds it unmounted
	}
	return errors.Join(p.clean, os.RemoveAll(upper))
}
