// Package bundlecmd is the commands of driver-build that carry images into a site without network: bundle
// create, verify, list, import and have.
package bundlecmd

import (
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/bounded"
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
func shown(observe progress.Observer, name, target string, work func(report func(done, total int64)) error) error {
	step := observe.Begin(target, name)
	return step.End(false, work(func(done, total int64) { step.Progress(path.Base(target), done, total) }))
}
