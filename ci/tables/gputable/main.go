// Command gputable makes the table of images/gpus of the lists of GPUs in NVIDIA's drivers and of
// pci.ids. It reads a folder, which ci/tables/gputable/run fills, and prints the table. It does not download.
//
// The folder has the list of each branch, as supported-gpus.json (450.json, since 450) or as appendix A of
// the README (390.txt), the README of each release of the open modules (580.142.md), and pci.ids.
package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gputable FOLDER")
		os.Exit(2) //nolint:forbidigo // this is main.go
	}
	if err := run(os.DirFS(os.Args[1]), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gputable:", err)
		os.Exit(1) //nolint:forbidigo // this is main.go
	}
}

const header = `# NVIDIA's GPUs, made by ci/tables/gputable (make gpulist); edit that, not this.
# number, chip (pci.ids), first branch (oldest list with a GPU of the chip, or else the newest of its generation), last branch
# (legacybranch of the lists; R580 for Maxwell to Volta, see ci/tables/gputable/merge.go), flavours (p proprietary, o open; po565: open
# from R565 on), NVIDIA's lists that drive it (oldest-newest; - if only pci.ids names it), names (of the lists, or else pci.ids)
`

func run(folder fs.FS, out io.Writer) error {
	lists, err := readLists(folder)
	if err != nil {
		return err
	}
	chips, err := readIDs(folder)
	if err != nil {
		return err
	}
	lines, err := merge(lists, chips)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, header+strings.Join(lines, "\n")+"\n")
	return err
}
