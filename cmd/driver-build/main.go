// Command driver-build turns rows of a version matrix into NVIDIA driver images. See its --help and
// docs/build.md.
package main

import (
	"context"
	"fmt"
	"io"
	"log" //nolint:depguard // to silence it
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/bundlecmd"
	"github.com/driver-container/driver-container/cmd/driver-build/plancmd"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/runner/chroot"
	"github.com/driver-container/driver-container/node/cli"
)

const buildLong = `Turn rows of a version matrix into NVIDIA driver images: the user-mode driver, the kernel module sources, a
compiler, and driver-entrypoint to bring them up on a node. It needs no container daemon, no root and no Dockerfile; the
same inputs give the same digest on any machine. With --kernel, BuildKit or a chroot compiles the modules ahead of time.
"driver-build" with these flags and without "build" does the same.

Results go to stdout, one reference@sha256:... a line; everything else goes to stderr.

Exit codes: 0 done, 1 unexpected, 2 bad flags or matrix, 3 some targets failed or a check found fault, 4 network or registry,
5 checksum or signature mismatch or unfit image, 6 a step failed, 130 interrupted, 143 terminated.`

const buildExample = `  driver-build build --os ubuntu22.04 --driver 580.178.04 --output oci:dist
  driver-build build --os ubuntu24.04 --driver 580.178.04 --push --repository registry.example.com/gpu/driver
  driver-build build --os ubuntu22.04 --driver 580.178.04 --arch amd64 --arch arm64 --dry-run`

// newRootCmd is driver-build: alone it is the command build.
func newRootCmd(a *session.App) *cobra.Command {
	cmd := buildCommand(a, "driver-build")
	cmd.Short = "Build NVIDIA driver images from a version matrix"
	cmd.Example = strings.ReplaceAll(buildExample, " build ", " ")
	info := session.BuildInfo() // with the commit of a program that was compiled in a checkout
	cmd.Flags().Bool("version", false, "print the version")
	cmd.Version = info.Version
	if info.Revision != info.Version {
		cmd.Version = strings.TrimSpace(info.Version + " " + info.Revision)
	}
	cmd.SetVersionTemplate("driver-build {{.Version}}\n")
	a.Root(cmd)
	cmd.SetUsageFunc(usage)
	cmd.SetHelpFunc(cli.Help)
	build := buildCommand(a, "build")
	build.Short = "Build images of the matrix"
	build.Long = buildLong
	build.Example = buildExample
	build.Args = cobra.NoArgs
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Build", []*cobra.Command{build, newListCmd(a), newKernelsCmd(a), newFetchCmd(a), newPushCmd(a)}},
		{"Look at images", []*cobra.Command{newInspectCmd(a), newVerifyCmd(a), newRehearseCmd(a), newSBOMCmd(a)}},
		{"Fleet and CI", []*cobra.Command{
			plancmd.NewCheck(a), plancmd.NewPlan(a), plancmd.NewFleet(a), plancmd.NewAudit(a), newLockCmd(a), newReportCmd(a), newDriversCmd(a), newGPUsCmd(a), newMatrixCmd(a),
		}},
		{"Trust and air gap", append(bundlecmd.Commands(a), newSignCmd(a), newAttestCmd(a))},
		{"Setup", []*cobra.Command{newDoctorCmd(a), newCacheCmd(a), newVersionCmd(a)}},
	} {
		cmd.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, c := range group.commands {
			c.GroupID = group.title
			cmd.AddCommand(c)
		}
	}
	cmd.SetHelpCommandGroupID("Setup")
	cmd.SetCompletionCommandGroupID("Setup")
	complete(cmd)
	return cmd
}

func newVersionCmd(a *session.App) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  driver-build version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(a.Stdout, "driver-build", cmd.Root().Version)
			return err
		},
	}
}

func main() {
	chroot.Init() // this process may be the inside of a compile
	// libraries write to it: HTTP/2 a line for each transfer to a BuildKit daemon that is cut off
	log.SetOutput(io.Discard)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heap)
	}
	if err := checkMemory(syscall.Getrlimit); err != nil {
		fmt.Fprintln(os.Stderr, "driver-build:", err)
		os.Exit(session.ExitUnexpected)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		stop, _ := (<-signals).(syscall.Signal) // always one
		cancel(session.SignalError{Signal: stop})
		signal.Reset(syscall.SIGINT, syscall.SIGTERM) // a second signal ends the process at once
	}()
	a := &session.App{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}
	os.Exit(a.Execute(ctx, newRootCmd(a), os.Args[1:])) //nolint:contextcheck // commands get theirs from ExecuteContext
}

// heap keeps the collector ahead of the decoders' buffers: a build stays below 300 MB whatever the
// driver's size. It is a soft limit, and GOMEMLIMIT overrides it.
const heap = 200 << 20

// least are the lowest limits under which every command works: of the data of a process (ulimit
// -d), to which its heap and the stacks of its threads count, and of its address space (ulimit -v),
// of which Go reserves much more than it uses.
var least = []struct {
	resource int
	ulimit   string
	bytes    uint64
}{{syscall.RLIMIT_DATA, "-d", 512 << 20}, {syscall.RLIMIT_AS, "-v", 2 << 30}}

// checkMemory refuses lower limits before the work begins. When memory runs out later, Go's
// runtime ends the process with a trace and exit code 2.
func checkMemory(limit func(resource int, l *syscall.Rlimit) error) error {
	for _, l := range least {
		var have syscall.Rlimit
		if err := limit(l.resource, &have); err != nil {
			return fmt.Errorf("read this process's limit of memory: %w", err)
		}
		if have.Cur < l.bytes {
			return fmt.Errorf(
				"this process may use %d MiB of memory (ulimit %s), but needs up to %d MiB: raise the limit with ulimit %s %d",
				have.Cur>>20,
				l.ulimit,
				l.bytes>>20,
				l.ulimit,
				l.bytes>>10,
			)
		}
	}
	return nil
}
