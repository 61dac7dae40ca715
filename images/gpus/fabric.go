package gpus

import (
	"regexp"
	"slices"

	"github.com/driver-container/driver-container/images/matrix"
)

// onBaseboard matches the names of the GPUs that NVLink switches can join: those of HGX and DGX
// baseboards (SXM from the third one on; the second has no switches). NVIDIA names a board for a
// PCIe slot by a word more: PCIe, NVL, CNX. H20 NVL16 is the exception, a baseboard of 16. Grace
// Hopper (GH200) has no switches that its node sees.
var onBaseboard = regexp.MustCompile(
	`SXM[3-9]|SXM-|HGX|^(NVIDIA )?(H100( [0-9]+GB.*)?|H200|H800|H20B?|H20-3e|H20 NVL16)$|\bB[123]00\b`,
)

// inRack matches the names of the GPUs whose switches have computers of their own, which need
// nothing of the node's driver (package node/fabric has them by their numbers).
var inRack = regexp.MustCompile(`\bGB[123]00\b`)

// Components returns the components of a driver (names of package matrix) without which a machine
// with this GPU may not work: where NVLink switches join GPUs, every CUDA program fails with error
// 802 until the fabric manager has set them up, from NVLink 5 (Blackwell) on with the help of
// NVLSM. It is nil for a GPU that no switches join.
func (g GPU) Components() []string {
	switch {
	case slices.ContainsFunc(g.Names(), inRack.MatchString):
		return nil
	case !slices.ContainsFunc(g.Names(), onBaseboard.MatchString):
		return nil
	case g.Generation == "Blackwell":
		return []string{matrix.FabricManager, matrix.NVLSM}
	}
	return []string{matrix.FabricManager}
}
