package companions

import "github.com/driver-container/driver-container/distros/driverinfo"

// companion is what is known of one companion besides its name.
type companion struct {
	flag     string // of driver-entrypoint
	variable string // that NVIDIA's containers know
	product  string // for which it is
	sidecar  string // program of NVIDIA's sidecar that loads it
}

var table = map[string]companion{
	driverinfo.NvidiaFS: {"--gds", "GDS_ENABLED", "GPUDirect Storage", "nvidia-gds-driver"},
	driverinfo.GDRDrv:   {"--gdrcopy", "GDRCOPY_ENABLED", "GDRCopy", "nvidia-gdrcopy-driver"},
}

// flagOf returns the flag that asks for a companion, with its variable.
func flagOf(name string) string { return table[name].flag + " (" + table[name].variable + ")" }

// Wanted returns the names of the companions that a configuration asks for.
func Wanted(gds, gdrcopy bool) (names []string) {
	if gds {
		names = append(names, driverinfo.NvidiaFS)
	}
	if gdrcopy {
		names = append(names, driverinfo.GDRDrv)
	}
	return names
}
