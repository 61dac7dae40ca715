package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// limit is the longest time of a tier, for slow machines. The goal on an idle machine with two cores is
// an hour.
const limit = 3 * time.Hour

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	all := flag.Bool("all", false, "run every tier, whole")
	flag.Parse()
	if err := work(ctx, *all, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "ci/lint/tiers:", err)
		os.Exit(1) //nolint:gocritic // nothing else is deferred
	}
}

func work(ctx context.Context, all bool, names []string) error {
	chosen, err := tiers()
	if err != nil {
		return err
	}
	whole := all || len(names) > 0
	if len(names) > 0 {
		if chosen, err = named(chosen, names); err != nil {
			return err
		}
	} else {
		chosen = slices.DeleteFunc(chosen, func(t tier) bool { return !all && t.empty() })
	}
	ctx, cancel := context.WithCancel(ctx)
	programs := build(ctx, chosen)
	defer programs.wait() //nolint:errcheck // cancelled, or the tiers have reported the error
	defer cancel()
	var failed, lines []string
	for _, t := range chosen {
		begin := time.Now()
		err := run(ctx, t, whole, programs)
		result := "pass"
		if err != nil {
			result = err.Error()
			failed = append(failed, t.Name)
		}
		took := time.Since(begin).Round(time.Second)
		lines = append(lines, fmt.Sprintf("e2e: %-16s %5.0f s, %s", t.Name, took.Seconds(), result))
		fmt.Fprintln(os.Stderr, lines[len(lines)-1])
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	fmt.Fprintln(os.Stderr, strings.Join(lines, "\n"))
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

// run runs one tier.
func run(ctx context.Context, t tier, whole bool, programs *cluster) error {
	if t.Cluster {
		if err := programs.wait(); err != nil {
			return err
		}
	}
	args := t.command(whole)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "DRIVER_E2E=1")
	// A group of its own: go test alone, when it is interrupted, waits for its tests, and they do not know.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = time.Minute // for tests to end what they started
	return cmd.Run()
}
