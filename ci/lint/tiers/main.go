// Command tiers runs the tests that need more than Go, tier by tier, as tiers.yaml lists them.
//
//	go run ./ci/lint/tiers              the part of each tier that CI runs
//	go run ./ci/lint/tiers -all         every tier, whole
//	go run ./ci/lint/tiers NAME...      these tiers, whole; "lab" stands for all tiers that begin with lab-
//
// It prints how long each tier took, and its processor time. A tier that fails, or has not ended after an hour, does not
// stop the others. ci/e2e/run installs what the tests need and calls this command.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// limit is that of a tier, on an idle machine with two cores.
const limit = time.Hour

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	all := flag.Bool("all", false, "run every tier, whole")
	flag.Parse()
	err := work(ctx, *all, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ci/lint/tiers:", err)
		os.Exit(1)
	}
}

func work(ctx context.Context, all bool, names []string) error {
	table, err := tiers()
	if err != nil {
		return err
	}
	whole := all || len(names) > 0
	chosen, err := choose(table, whole, names)
	if err != nil {
		return err
	}
	var failed, lines []string
	for _, t := range chosen {
		begin := time.Now()
		var used time.Duration
		result := "pass"
		limited, stop := context.WithTimeoutCause(
			ctx,
			limit,
			fmt.Errorf("not at its end after %s", limit),
		)
		for _, args := range t.commands(whole) {
			busy, err := run(limited, args)
			used += busy
			if err != nil {
				failed = append(failed, t.Name)
				result = cmp.Or(context.Cause(limited), err).Error()
				break
			}
		}
		stop()
		line := fmt.Sprintf(
			"e2e: %-16s %5.0f s, %5.0f s of processors, %s",
			t.Name, time.Since(begin).Seconds(), used.Seconds(), result,
		)
		lines = append(lines, line)
		fmt.Fprintln(os.Stderr, line)
		if ctx.Err() != nil {
			break
		}
	}
	fmt.Fprintln(os.Stderr, strings.Join(lines, "\n"))
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return ctx.Err()
}

// run runs a program in a group of its own: go test alone, when it is interrupted, waits for its
// tests, and they do not know. It returns the processor time of the program and of all that was
// waited for.
func run(ctx context.Context, args []string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "DRIVER_E2E=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = time.Minute // for tests to end what they started
	err := cmd.Run()
	if cmd.ProcessState == nil { // it did not start
		return 0, err
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}
