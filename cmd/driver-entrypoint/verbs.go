package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/host"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/status"
	"github.com/driver-container/driver-container/version"
)

func (p *program) probeCommand() *cobra.Command {
	cfg := config.Defaults()
	cmd := &cobra.Command{
		Use:   "probe startup|ready|live",
		Short: "for the probes of this container: exit code 0 or 15",
		Long: `startup and ready succeed when the instance in this container serves the driver; startup also writes the marker that the
GPU Operator's validator waits for. live succeeds while the instance gives signs of life, also while it waits or compiles.`,
		Args: oneOf("startup", "ready", "live"),
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] == "live" {
				if err := status.Alive(status.InstanceFile, time.Now()); err != nil {
					return fmt.Errorf("%w: %w", status.ErrNotReady, err)
				}
				return nil
			}
			if err := status.Mine(cfg.Run, status.InstanceFile, kmod.System{}); err != nil {
				return err
			}
			if args[0] == "startup" {
				return status.MarkStarted(cfg.Run, p.getenv)
			}
			return nil
		},
	}
	endsAtOnce(cmd)
	folderFlags(cmd.Flags(), &cfg)
	return cmd
}

func (p *program) waitReadyCommand() *cobra.Command {
	cfg := config.Defaults()
	timeout := 20 * time.Minute
	cmd := &cobra.Command{Use: "wait-ready", Short: "wait until the driver serves this node",
		Long: `wait-ready ends with 0 when a driver serves this node and with 15 when it does not in time. It compares the status with the
node's lock, modules and driver root, so that a driver whose container was killed does not count. It is for init containers of
what needs the driver; they need the host's /run/nvidia, nothing else.`, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return status.WaitReady(ctx, cfg.Run, kmod.System{}, p.log())
		}}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "give up after so long")
	folderFlags(cmd.Flags(), &cfg)
	return cmd
}

func (p *program) preflightCommand() *cobra.Command {
	cfg := config.Defaults()
	var format string
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "check whether this node can have the driver",
		Args:  noArgs,
		Long:  "preflight says what to do, and changes nothing. It ends with 11 when a check stops the driver.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			findToolkit(&cfg)
			n, err := p.node(cfg, node.Options{})
			if err != nil {
				return err
			}
			checks, err := n.Preflight(cmd.Context())
			if err != nil {
				return err
			}
			err = p.print(
				format,
				list[preflight.Check]{listSchema, append([]preflight.Check{}, checks...)},
				func(w io.Writer) error { return preflight.Table(w, checks) },
			)
			if blocked := preflight.Blocking(checks); err == nil && blocked != nil {
				return blockedError{blocked}
			}
			return err
		},
	}
	formatFlag(cmd, &format)
	sourceFlags(cmd.Flags(), &cfg)
	moduleFlags(cmd.Flags(), &cfg)
	fabricFlags(cmd.Flags(), &cfg)
	folderFlags(cmd.Flags(), &cfg)
	return cmd
}

func (p *program) unloadCommand(stopCtx context.Context) *cobra.Command {
	cfg := config.Defaults()
	cfg.LockTimeout = 10 * time.Second
	cfg.Grace = 100 * time.Second
	cfg.OnBusy = config.BusyFail
	cmd := &cobra.Command{
		Use:   "unload",
		Short: "take down a driver that was left in place",
		Args:  noArgs,
		Long: `unload removes modules, driver root and device files. It needs the node's lock: stop the driver container first.
It ends with 14 when the driver is in use.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := p.node(cfg, node.Options{})
			if err != nil {
				return err
			}
			return n.Unload(cmd.Context(), stopCtx)
		},
	}
	stopFlags(cmd.Flags(), &cfg)
	folderFlags(cmd.Flags(), &cfg)
	return cmd
}

func (p *program) holdersCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "holders",
		Short: "list who has the driver's devices open",
		Args:  noArgs,
		Long:  "holders needs the host's process table (hostPID). It sees device files and mappings of them.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			holders, err := kmod.System{}.Holders(cmd.Context())
			if err != nil {
				return err
			}
			return p.print(
				format,
				list[kmod.Holder]{listSchema, append([]kmod.Holder{}, holders...)},
				func(w io.Writer) (err error) {
					if len(holders) == 0 {
						fmt.Fprintln(
							p.stderr,
							"nobody that is visible here has the driver's devices open",
						)
					}
					for _, h := range holders {
						_, werr := fmt.Fprintln(w, h)
						err = errors.Join(err, werr)
					}
					return err
				},
			)
		},
	}
	endsAtOnce(cmd)
	formatFlag(cmd, &format)
	return cmd
}

func (p *program) statusCommand() *cobra.Command {
	cfg := config.Defaults()
	var format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "say what is known about the driver on this node",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			st, err := status.Read(cfg.Run)
			switch {
			case errors.Is(err, os.ErrNotExist):
				st = status.Snapshot{
					Schema: status.Schema,
					State:  status.Absent,
					Reason: status.Missing(cfg.Run),
				}
			case err != nil:
				return err
			}
			st = st.Corrected(cfg.Run, kmod.System{})
			return p.print(format, st, func(w io.Writer) error {
				return status.WriteText(w, st, cfg.Run, kmod.System{}, host.Instances("/proc"))
			})
		},
	}
	endsAtOnce(cmd)
	formatFlag(cmd, &format)
	folderFlags(cmd.Flags(), &cfg)
	return cmd
}

func (p *program) reloadPeermemCommand() *cobra.Command {
	cfg := config.Defaults()
	// none: a driver may wait for days until a GPU is free, and the operator counts restarts of
	// this container, too
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "reload_nvidia_peermem",
		Short: "load nvidia-peermem, then stay",
		Args:  noArgs,
		Long:  "reload_nvidia_peermem waits until the modules of driver and network are there.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := p.node(cfg, node.Options{})
			if err != nil {
				return err
			}
			err = n.LoadPeermem(cmd.Context(), timeout, p.getenv("USE_HOST_MOFED") == "true")
			if err != nil && cmd.Context().Err() == nil { // else a signal ended the waiting
				return err
			}
			<-cmd.Context().Done()
			return nil
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "give up waiting after so long; 0: never")
	moduleFlags(cmd.Flags(), &cfg)
	folderFlags(cmd.Flags(), &cfg)
	return cmd
}

func (p *program) probePeermemCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "probe_nvidia_peermem",
		Short: "exit code 15 when nvidia-peermem is missing",
		Args:  noArgs,
		Long:  "probe_nvidia_peermem ends with 15 when Mellanox's module is loaded and nvidia-peermem is not.",
		RunE:  func(*cobra.Command, []string) error { return status.PeermemMissing(kmod.System{}) },
	}
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the versions of this program and of the driver",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.stdout, "driver-entrypoint", p.versions())
			return err
		},
	}
}

// versions are those of this program and of the image's driver.
func (p *program) versions() string {
	return version.Own() + " driver " + p.getenv("DRIVER_VERSION")
}

// endsAtOnce lets a signal end a verb that only looks, wherever it hangs: it has nothing to undo.
func endsAtOnce(cmd *cobra.Command) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		const terminated = 128 + int(unix.SIGTERM)
		defer context.AfterFunc(cmd.Context(), func() { os.Exit(terminated) })() //nolint:forbidigo // what hangs in the kernel returns no error
		return run(cmd, args)
	}
}

func formatFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "format", "o", "text", "text or json")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *format != "text" && *format != "json" {
			return usageError{fmt.Errorf("--format is %q; it must be text or json", *format)}
		}
		return run(cmd, args)
	}
}

// listSchema is the version of the shape of lists. It grows when the meaning of a field changes.
const listSchema = 1

// list is what a verb prints as JSON that shows several things.
type list[T any] struct {
	Schema int `json:"schema"`
	Items  []T `json:"items"`
}

// print prints v as JSON, or as text.
func (p *program) print(format string, v any, text func(io.Writer) error) error {
	if format != "json" {
		return text(p.stdout)
	}
	e := json.NewEncoder(p.stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
