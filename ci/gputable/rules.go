package main

import (
	"fmt"

	"github.com/driver-container/driver-container/images/gpulist"
)

// lastBranches are the last branches of whole generations. That of Fermi and Kepler is also what the lists
// say; the lists in Debian end with R555, which drives Maxwell to Volta. R580 is their last: the table
// of legacy GPUs in the installer of 590.44.01 (nvGpus.h of nvidia-installer) names 580.xx for them.
var lastBranches = map[string]int{"Fermi": firstFermi, "Kepler": 470, "Maxwell": 580, "Pascal": 580, "Volta": 580}

// firstFermi is the last branch for Fermi, and the first that is of interest here.
const firstFermi = 390

// firstBranches are the first branches of generations that are in none of the lists. No file that this
// program reads says it: public tables of drivers and GPUs have Blackwell from R570 on.
var firstBranches = map[string]int{"Blackwell": 570}

// flavoursOf returns the flavours that drive a GPU of a generation, by the rules of NVIDIA's installer: there
// are no open modules before Turing; Blackwell, and Hopper with a Grace (0x2340 to 0x237f,
// detect-self-hosted.h), need them.
func flavoursOf(device uint16, generation string) string {
	switch generation {
	case gpulist.PreFermi, "Fermi", "Kepler", "Maxwell", "Pascal", "Volta":
		return "p"
	case "Blackwell":
		return "o"
	}
	if device >= 0x2340 && device <= 0x237f {
		return "o"
	}
	return "po"
}

// check compares a row with the rules of its generation: a list that says otherwise is news.
func (r row) check() error {
	generation := gpulist.GenerationOf(r.chip)
	if last := lastBranches[generation]; generation != gpulist.PreFermi && r.last > last {
		return fmt.Errorf("%04x (%s, %s): its last branch is %d, that of %s is %d", r.device, r.chip, r.names[0], r.last, generation, last)
	}
	return nil
}
