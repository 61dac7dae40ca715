package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/moby/sys/atomicwriter"
	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/support"
)

func (p *program) supportCommand() *cobra.Command {
	cfg := config.Defaults()
	cmd := &cobra.Command{Use: "support FILE", Short: "write a tar archive for a support request",
		Long: `support writes into FILE, or with - to stdout, what the other commands say
(status, preflight, holders), the driver's parameters, PCI devices, modules,
mounts, what the kernel logged about them, and the logs of compiles. It takes no
environment, no configuration and no secret. left-out.txt in the archive names
what is missing; the exit code is then 1, and the archive is there all the same.

    kubectl exec -n NS POD -- nvidia-driver support - > support.tar`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{
					fmt.Errorf(
						"%s takes the path of the archive, or - for stdout, but got %q",
						cmd.CommandPath(),
						args,
					),
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var archive bytes.Buffer // whole or not at all
			wrong := support.Write(
				&archive,
				time.Now(),
				append(p.printed(cmd.Context(), cfg), support.Machine("/", cfg.StateDir)...),
			)
			if args[0] != "-" {
				return errors.Join(wrong, atomicwriter.WriteFile(args[0], archive.Bytes(), 0o600))
			}
			_, err := p.stdout.Write(archive.Bytes())
			return errors.Join(wrong, err)
		}}
	endsAtOnce(cmd)
	folderFlags(cmd.Flags(), &cfg)
	return cmd
}

// printed returns the parts of an archive that other commands print. A check that stops the driver is no
// fault of preflight.
func (p *program) printed(ctx context.Context, cfg config.Config) (parts []support.Part) {
	folders := []string{"--run-dir", cfg.Run, "--state-dir", cfg.StateDir}
	for _, file := range [][]string{
		{"version.txt", "version"},
		append([]string{"status.txt", "status", "--format=text"}, folders...),
		append([]string{"status.json", "status", "--format=json"}, folders...),
		append([]string{"preflight.txt", "preflight", "--format=text"}, folders...),
		{"holders.txt", "holders", "--format=text"},
	} {
		parts = append(parts, support.Part{Name: file[0], Write: func(w io.Writer) error {
			command := (&program{stdout: w, stderr: w, env: p.env}).command(ctx)
			command.SetArgs(file[1:])
			err := command.ExecuteContext(ctx)
			if errors.As(err, new(blockedError)) {
				return nil
			}
			return err
		}})
	}
	return parts
}
