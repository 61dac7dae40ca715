package main

import (
	"io"
	"io/fs"
	"strings"
)

const gpusHeader = `# NVIDIA's GPUs, made by ci/tables/upstream (make gpulist); edit that, not this.
# number, chip (pci.ids), first branch (oldest list with a GPU of the chip, or else the newest of its generation), last branch
# (legacybranch of the lists; R580 for Maxwell to Volta, see ci/tables/upstream/gpumerge.go), flavours (p proprietary, o open; po565: open
# from R565 on), NVIDIA's lists that drive it (oldest-newest; - if only pci.ids names it), names (of the lists, or else pci.ids)
`

// writeGPUs prints the table of images/gpus.
func writeGPUs(folder fs.FS, out io.Writer) error {
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
	_, err = io.WriteString(out, gpusHeader+strings.Join(lines, "\n")+"\n")
	return err
}
