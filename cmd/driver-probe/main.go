// Command driver-probe asks NVML about the driver and prints the answer as JSON. It is a process of
// its own because NVML needs cgo, keeps device files open and can hang: driver-entrypoint starts it
// with a deadline and kills it. With --usage it also reports the used memory and the utilisation of
// each GPU; without, it asks only what readiness needs.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/driver-container/driver-container/version"
)

// answer is the output. A call about the driver that fails leaves the rest out; a call about a GPU
// that fails leaves that GPU out.
type answer struct {
	Driver string `json:"driver,omitempty"` // version of the loaded kernel driver
	// highest version of CUDA of the driver; left out where it is not known
	CUDA    string   `json:"cuda,omitempty"`
	Devices []device `json:"devices"`
	// why each GPU that is left out is: "device 1: GPU is lost"
	Failed []string `json:"failed,omitempty"`
	// the call about the driver that failed, with NVML's text, which is for people
	Error string `json:"error,omitempty"`
	Code  int    `json:"code,omitempty"` // nvmlReturn_t of that call
}

// device is a GPU. Memory and Utilization are set only with --usage, and only where NVML has them:
// a GPU that is divided (MIG) has no utilisation of its own, and one that shares the processor's
// memory has no memory to count.
type device struct {
	UUID   string  `json:"uuid"`
	Name   string  `json:"name"`
	PCI    string  `json:"pci"`
	Memory *memory `json:"memory,omitempty"`
	// Percent of the last sample period in which a kernel ran.
	Utilization *uint32  `json:"utilization,omitempty"`
	Fabric      *fabric  `json:"fabric,omitempty"`
	Licence     *licence `json:"licence,omitempty"`
}

// memory is in bytes. Memory that the driver reserves for itself counts as used: the NVML call that
// separates it does not exist in every branch.
type memory struct {
	Total uint64 `json:"total"`
	Used  uint64 `json:"used"`
}

const usageFlag = "--usage"

func main() { os.Exit(run(nvml.New(), os.Args[1:], os.Stdout, os.Stderr)) }

// run returns the exit code: 0 when NVML answered every call, 1 when it did not (the answer is
// printed in both cases), 2 for wrong arguments.
func run(lib nvml.Interface, args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == "--version" {
		fmt.Fprintln(stdout, "driver-probe", version.Own())
		return 0
	}
	usage := len(args) == 1 && args[0] == usageFlag
	if len(args) > 0 && !usage {
		fmt.Fprintf(
			stderr,
			"driver-probe: takes no arguments but %s or --version, got %q\n",
			usageFlag,
			args,
		)
		return 2
	}
	a := ask(lib, usage)
	if err := json.NewEncoder(stdout).Encode(a); err != nil {
		fmt.Fprintln(stderr, "driver-probe: write the answer:", err)
		return 1
	}
	if a.Error != "" || len(a.Failed) > 0 {
		return 1
	}
	return 0
}

// cudaSymbol is the call about CUDA. A library that lacks it must not be asked: the program would
// end with an unresolved symbol.
const cudaSymbol = "nvmlSystemGetCudaDriverVersion"

// cudaOf returns the highest version of CUDA that the driver runs, such as 12.2, and "" if NVML
// does not say: the driver works without an answer.
func cudaOf(lib nvml.Interface) string {
	if lib.Extensions().LookupSymbol(cudaSymbol) != nil {
		return ""
	}
	version, ret := lib.SystemGetCudaDriverVersion()
	if ret != nvml.SUCCESS || version < 1000 {
		return ""
	}
	return fmt.Sprintf("%d.%d", version/1000, version%1000/10)
}

// ask stops when a call about the driver fails.
func ask(lib nvml.Interface, usage bool) (a answer) {
	a.Devices = []device{}
	failed := func(call string, ret nvml.Return) bool {
		if ret != nvml.SUCCESS && a.Error == "" {
			a.Error = call + ": " + ret.Error()
			a.Code = int(ret)
		}
		return ret != nvml.SUCCESS
	}
	if failed("nvmlInit", lib.Init()) {
		return a
	}
	defer func() { failed("nvmlShutdown", lib.Shutdown()) }()
	var ret nvml.Return
	a.Driver, ret = lib.SystemGetDriverVersion()
	if failed("nvmlSystemGetDriverVersion", ret) {
		return a
	}
	a.CUDA = cudaOf(lib)
	n, ret := lib.DeviceGetCount()
	if failed("nvmlDeviceGetCount", ret) {
		return a
	}
	for i := range n {
		d, err := describe(lib, i, usage)
		if err != nil {
			a.Failed = append(a.Failed, err.Error())
			continue
		}
		a.Devices = append(a.Devices, d)
	}
	return a
}

func describe(lib nvml.Interface, i int, usage bool) (d device, err error) {
	check := func(what string, ret nvml.Return) {
		if ret != nvml.SUCCESS && err == nil {
			err = fmt.Errorf("device %d: %s%s", i, what, ret.Error())
		}
	}
	h, ret := lib.DeviceGetHandleByIndex(i)
	if check("", ret); err != nil {
		return d, err
	}
	d.UUID, ret = h.GetUUID()
	check("uuid: ", ret)
	d.Name, ret = h.GetName()
	check("name: ", ret)
	pci, ret := h.GetPciInfo()
	check("PCI address: ", ret)
	d.PCI = fmt.Sprintf("%08x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
	d.Fabric = fabricOf(lib, h)
	d.Licence = licenceOf(lib, h)
	if !usage {
		return d, err
	}
	// A GPU that does not support one of these is no error.
	if m, ret := h.GetMemoryInfo(); ret == nvml.SUCCESS {
		d.Memory = &memory{Total: m.Total, Used: m.Used}
	} else if ret != nvml.ERROR_NOT_SUPPORTED {
		check("memory: ", ret)
	}
	if u, ret := h.GetUtilizationRates(); ret == nvml.SUCCESS {
		d.Utilization = &u.Gpu
	} else if ret != nvml.ERROR_NOT_SUPPORTED {
		check("utilisation: ", ret)
	}
	return d, err
}
