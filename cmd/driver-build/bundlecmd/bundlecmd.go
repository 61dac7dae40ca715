// Package bundlecmd is the commands of driver-build that carry images into a site without network: bundle
// create, verify, list, import and have.
package bundlecmd

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/bundle/reading"
)

// Commands returns the commands, for the root of driver-build.
func Commands(a *session.App) []*cobra.Command {
	cmd := &cobra.Command{
		Use: "bundle", Short: "Carry images and all that belongs to them as one file", Args: session.NoArgs,
		Long: "Carry images, their signatures and SBOMs, and the chart into a site without network: one file, or several of a size.\n" +
			"The file is a tar of an OCI layout, which skopeo, regctl, oras and ctr read as well.",
		Example: "  driver-build bundle create --output fleet.tar --repository registry.example.com/gpu/driver --image-key image.key\n" +
			"  driver-build bundle import fleet.tar --to registry.site/mirror/gpu/driver --key image.pub",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCreate(a), newVerify(a), newList(a), newImport(a), newHave(a))
	return []*cobra.Command{cmd}
}

// open opens the files of a bundle. The caller calls done.
func open(names []string) (sources []reading.Source, done func(), err error) {
	var files []*os.File
	done = func() {
		for _, f := range files {
			f.Close()
		}
	}
	for _, n := range names {
		f, err := bounded.Open(n)
		if errors.Is(err, bounded.ErrNotRegular) {
			err = fmt.Errorf("%w: a pipe is read with - instead of a name", err)
		}
		if err != nil {
			done()
			return nil, nil, session.Usage(err)
		}
		files = append(files, f)
		info, err := f.Stat()
		if err != nil {
			done()
			return nil, nil, session.Usage(err)
		}
		sources = append(sources, reading.Source{Name: n, Content: f, Size: info.Size()})
	}
	return sources, done, nil
}

// someFiles wants at least one argument.
func someFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return session.Usagef("%s: give the files of the bundle: usage: %s", cmd.Name(), cmd.UseLine())
	}
	return nil
}
