// Command chart writes the generated files of the Helm chart: its README and the descriptions of its schema
// from the comments of values.yaml, and the files that its templates need from the packages that own them.
//
// It does not check the chart: helm does, in ci/cluster/helm. The fast test of this package fails when a
// file is out of date.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "the project's folder")
	flag.Parse()
	files, err := Files(*root)
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(*root, name), content, 0o644)) //nolint:gosec // a file of the repository
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
