// Package bundlecmd is the commands of driver-build that carry images into a site without network:
// bundle create, verify, list, import and have.
package bundlecmd

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/progress"
)

// Commands returns the commands, for the root of driver-build.
func Commands(a *session.App) []*cobra.Command {
	cmd := &cobra.Command{
		Use: "bundle", Short: "Carry images and all that belongs to them as one file", Args: cobra.NoArgs,
		Long: "Carry images, their signatures and SBOMs, and the chart into a site without network, as one file.\n" +
			"The file is a tar of an OCI layout, which skopeo, regctl, oras and ctr read as well.",
		Example: "  driver-build bundle create --output fleet.tar --repository registry.example.com/gpu/driver --image-key image.key\n" +
			"  driver-build bundle import fleet.tar --to registry.site/mirror/gpu/driver --key image.pub",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCreate(a), newVerify(a), newList(a), newImport(a), newHave(a))
	return []*cobra.Command{cmd}
}

// open opens the file of a bundle until the command ends.
func open(a *session.App, name string) (*io.SectionReader, error) {
	f, err := bounded.Open(name)
	if errors.Is(err, bounded.ErrNotRegular) {
		err = fmt.Errorf("%w: import reads a pipe with - instead of a name", err)
	}
	if err != nil {
		return nil, session.Usage(err)
	}
	a.Defer(f.Close)
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(f, 0, info.Size()), nil
}

// shown shows how far work on a file or a repository is.
func shown(
	observe progress.Observer,
	name, target string,
	work func(report func(done, total int64)) error,
) error {
	step := observe.Begin(target, name)
	return step.End(false, work(step.File(path.Base(target))))
}

func newVerify(a *session.App) *cobra.Command {
	var key flags.Trust
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Verify a bundle", Args: cobra.ExactArgs(1),
		Long: "Compare every byte of a bundle with its list, in both directions, and its signature with a public key.\n" +
			"All blobs that are damaged, missing or out of place are found, and the first fault before them. With any, the exit code is 5.",
		Example: "  driver-build bundle verify fleet.tar --key image.pub",
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := key.Load()
			if err != nil {
				return err
			}
			file, err := open(a, args[0])
			if err != nil {
				return err
			}
			b, findings, err := check(cmd.Context(), a, args[0], file, keys)
			if err != nil {
				return err
			}
			if err := session.ShowList(a, findings, nil, func(f bundle.Fault) []string { return []string{f.String()} }); err != nil {
				return err
			}
			if len(findings) == 0 {
				fmt.Fprintf(
					a.Stderr,
					"%s: sound, %d items, %d blobs\n",
					b.Manifest.Digest,
					len(b.List.Items),
					len(b.List.Blobs),
				)
			}
			return bundle.Unsound(findings)
		},
	}
	key.AddTo(cmd.Flags())
	session.Format(cmd.Flags(), &a.Format, "table", "json")
	return cmd
}

// check verifies a bundle, and shows how far it is.
func check(ctx context.Context, a *session.App, name string, file *io.SectionReader, keys []crypto.PublicKey) (b *bundle.Bundle, found []bundle.Fault, err error) {
	err = a.Show(func(observe progress.Observer) error { //nolint:contextcheck // the display ends after the context
		return shown(observe, "verify", name, func(report func(done, total int64)) error {
			b, found, err = bundle.Check(ctx, file, keys, report)
			return err
		})
	})
	for n := range found {
		found[n].File = name
	}
	return b, found, err
}

func newList(a *session.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list FILE", Short: "Show what a bundle holds", Args: cobra.ExactArgs(1),
		Long:    "Show what a bundle holds, and what it lacks. -o json prints its list, which --since of bundle create takes.",
		Example: "  driver-build bundle list fleet.tar\n  driver-build bundle list fleet.tar -o json > list.json",
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := open(a, args[0])
			if err != nil {
				return err
			}
			b, err := bundle.Open(file)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if a.Format == "json" {
				_, err := a.Stdout.Write(b.Raw)
				return err
			}
			return printList(a, b)
		},
	}
	session.Format(cmd.Flags(), &a.Format, "table", "json")
	return cmd
}

func printList(a *session.App, b *bundle.Bundle) error {
	rows := [][]string{
		{"Bundle", b.Manifest.Digest.String()},
		{"Origin", b.List.Origin},
		{"Tool", b.List.Tool},
		{"Signed", strconv.FormatBool(b.Signed)},
	}
	for _, l := range b.Summaries() {
		rows = append(
			rows,
			[]string{
				string(l.Kind),
				l.Name,
				l.Digest.String(),
				fmt.Sprintf("%.1f MB", float64(l.Bytes)/1e6),
			},
		)
	}
	for _, x := range b.List.Absent {
		rows = append(
			rows,
			[]string{
				"absent",
				x.Digest.String(),
				fmt.Sprintf("%d bytes", x.Size),
				"in " + x.Source,
			},
		)
	}
	return a.Table(nil, rows)
}

func newHave(a *session.App) *cobra.Command {
	return &cobra.Command{
		Use: "have REGISTRY/PATH", Short: "List what a repository has, for bundle create --since", Args: cobra.ExactArgs(1),
		Long: "Print the digests of the blobs that a repository has, as JSON. Send it to the other side: bundle create --since FILE leaves\n" +
			"them out.",
		Example: "  driver-build bundle have registry.site/mirror/gpu/driver > have.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.Connect(
				cmd.Context(),
				nil,
				nil,
				func(ctx context.Context, s *session.Session) error {
					stock, err := bundle.StockOf(ctx, s.Builder.Registry, args[0])
					if err != nil {
						return err
					}
					return a.JSON(stock)
				},
			)
		},
	}
}
