package main

import (
	"errors"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
)

// chip is what pci.ids says of a device number.
type chip struct {
	code string // "TU104"; "" before Fermi
	name string // "GeForce RTX 2080"
	gpu  bool   // a GPU since Fermi
}

var (
	idsRow = regexp.MustCompile(`^\t([0-9a-f]{4})  (.*)$`)
	// chipCode is the code of a chip since Fermi; letters of its variants (GL, M) are left out.
	chipCode = regexp.MustCompile(`^(?:G[FKMPVAHB]|TU|AD)\d{2}[0-9B]`)
	// marketing is the product's name, in brackets.
	marketing = regexp.MustCompile(`\[([^\]]+)\]`)
	// otherFunction finds devices that have the name of a GPU's chip but are no GPU, GPUs of Tegra,
	// which have drivers of their own, numbers that only a hypervisor shows, and a fraud.
	otherFunction = regexp.MustCompile(
		`Audio|USB|NVSwitch|bridge|PCIe host|ESI\]|Tegra|Jetson|vGPU|FAKE`,
	)
)

// readIDs reads the devices of NVIDIA in pci.ids.
func readIDs(folder fs.FS) (map[uint16]chip, error) {
	text, err := fs.ReadFile(folder, "pci.ids")
	if err != nil {
		return nil, err
	}
	all := map[uint16]chip{}
	ours := false
	for line := range strings.SplitSeq(string(text), "\n") {
		if line != "" && line[0] != '\t' && line[0] != '#' {
			ours = strings.HasPrefix(line, "10de ")
		}
		m := idsRow.FindStringSubmatch(line)
		if !ours || m == nil {
			continue
		}
		device, err := strconv.ParseUint(m[1], 16, 16)
		if err != nil {
			return nil, err
		}
		all[uint16(device)] = chipOf(m[2])
	}
	if len(all) == 0 {
		return nil, errors.New("pci.ids has no device of 10de")
	}
	return all, nil
}

func chipOf(text string) chip {
	code := chipCode.FindString(text)
	c := chip{code: code, name: code, gpu: code != "" && !otherFunction.MatchString(text)}
	if m := marketing.FindStringSubmatch(text); m != nil {
		c.name = m[1]
	}
	return c
}
