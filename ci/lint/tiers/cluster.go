package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
)

// cluster is the build of Kubernetes' programs. Without a cache it takes minutes, and runs at low priority
// beside the other tiers.
type cluster struct {
	cmd   *exec.Cmd
	log   bytes.Buffer
	ended chan struct{}
	err   error
}

// build starts the build if one of the tiers needs the programs.
func build(ctx context.Context, chosen []tier) *cluster {
	c := &cluster{ended: make(chan struct{})}
	if !slices.ContainsFunc(chosen, func(t tier) bool { return t.Cluster }) {
		close(c.ended)
		return c
	}
	c.cmd = exec.CommandContext(ctx, "nice", "-n", "19", "ci/cluster/tools/build")
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.Cancel = func() error { return syscall.Kill(-c.cmd.Process.Pid, syscall.SIGTERM) }
	go func() {
		defer close(c.ended)
		c.err = c.cmd.Run()
	}()
	return c
}

// wait returns when the build has ended.
func (c *cluster) wait() error {
	<-c.ended
	if c.err != nil {
		fmt.Fprint(os.Stderr, c.log.String())
		return fmt.Errorf("build the cluster's programs: %w", c.err)
	}
	return nil
}
