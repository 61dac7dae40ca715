package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/bundlecmd"
	"github.com/driver-container/driver-container/cmd/driver-build/imagecmd"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/recipe"
)

const rootLong = `driver-build turns rows of a version matrix into NVIDIA driver images: the user-mode driver, the kernel module
sources, a compiler, and driver-entrypoint to bring them up on a node. It needs no container daemon, no root and no
Dockerfile; the same inputs give the same digest on any machine. With --kernel, BuildKit or a chroot compiles the modules ahead of time.

Results go to stdout, one reference@sha256:... a line; everything else goes to stderr.

Exit codes: 0 done, 1 unexpected, 2 bad flags or matrix, 3 some targets failed or a check found fault, 4 network or registry,
5 checksum or signature mismatch or unfit image, 6 a step failed, 130 interrupted, 143 terminated.`

const rootExample = `  driver-build --os ubuntu22.04 --driver 580.178.04 --output oci:dist
  driver-build --os ubuntu16.04 --driver 418.87.01 --push --repository registry.example.com/gpu/driver
  driver-build --os ubuntu22.04 --driver 580.178.04 --arch amd64 --arch arm64 --dry-run`

func newRootCmd(a *session.App) *cobra.Command {
	var o buildFlags
	cmd := &cobra.Command{
		Use: "driver-build --os SYSTEM --driver VERSION", Short: "Build NVIDIA driver images from a version matrix",
		Long: rootLong, Example: rootExample, Args: session.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), a) },
	}
	cmd.CompletionOptions.HiddenDefaultCmd = false
	info := session.BuildInfo()
	cmd.Flags().Bool("version", false, "print the version")
	cmd.Version = versionText(info)
	cmd.SetVersionTemplate("driver-build {{.Version}}\n")
	a.Root(cmd)
	o.addTo(cmd.Flags())
	cmd.AddCommand(newListCmd(a), newKernelsCmd(a), newFetchCmd(a), newVersionCmd(a, info), newDriversCmd(a), newGPUsCmd(a), newMatrixCmd(a),
		newLockCmd(a), newCheckCmd(a), newPlanCmd(a), newFleetCmd(a), newReportCmd(a), newDoctorCmd(a), newCacheCmd(a), newLoginCmd(a), newLogoutCmd(a))
	cmd.AddCommand(imagecmd.Commands(a)...)
	cmd.AddCommand(bundlecmd.Commands(a)...)
	arrange(cmd)
	complete(cmd)
	return cmd
}

// groups are the commands by what a person wants to do, in the order in which they are shown.
var groups = []struct {
	title    string
	commands []string
}{
	{"Build", []string{"list", "kernels", "fetch", "push"}},
	{"Look at images", []string{"inspect", "verify", "sbom"}},
	{"Fleet and CI", []string{"check", "plan", "fleet", "lock", "report", "drivers", "gpus", "matrix"}},
	{"Trust and air gap", []string{"sign", "attest", "bundle"}},
	{"Setup", []string{"doctor", "cache", "login", "logout", "completion", "version", "help"}},
}

func arrange(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range root.Commands() {
			if slices.Contains(g.commands, c.Name()) {
				c.GroupID = g.title
			}
		}
	}
	root.SetHelpCommandGroupID("Setup")
	root.SetCompletionCommandGroupID("Setup")
}

func newVersionCmd(a *session.App, info recipe.BuilderInfo) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  driver-build version", Args: session.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.Stdout, "driver-build", versionText(info))
			return err
		},
	}
}

// versionText is the version, and the commit of a program that was compiled in a checkout.
func versionText(info recipe.BuilderInfo) string {
	if info.Revision == info.Version {
		return info.Version
	}
	return strings.TrimSpace(info.Version + " " + info.Revision)
}
