// Command driver-probe asks NVML about the driver and prints the answer as JSON. It is a process of its own because NVML
// needs cgo, keeps device files open and can hang: driver-entrypoint starts it with a deadline and kills it.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// answer is what the probe knows. Error is NVML's own word for what went wrong; the rest is then incomplete.
type answer struct {
	Driver  string   `json:"driver,omitempty"` // version of the loaded kernel driver
	NVML    string   `json:"nvml,omitempty"`   // version of the library
	Devices []device `json:"devices"`
	Error   string   `json:"error,omitempty"`
}

type device struct {
	UUID string `json:"uuid"`
	Name string `json:"name"`
	PCI  string `json:"pci"`
}

func main() { os.Exit(run(nvml.New(), os.Stdout, os.Stderr)) }

// run exits with 0 when NVML answered everything, else with 1; the answer is printed in both cases.
func run(lib nvml.Interface, stdout, stderr io.Writer) int {
	a := ask(lib)
	if err := json.NewEncoder(stdout).Encode(a); err != nil {
		fmt.Fprintln(stderr, "driver-probe: write the answer:", err)
		return 1
	}
	if a.Error != "" {
		return 1
	}
	return 0
}

func ask(lib nvml.Interface) (a answer) {
	a.Devices = []device{}
	if ret := lib.Init(); ret != nvml.SUCCESS {
		a.Error = "nvmlInit: " + ret.Error()
		return a
	}
	defer func() {
		if ret := lib.Shutdown(); ret != nvml.SUCCESS && a.Error == "" {
			a.Error = "nvmlShutdown: " + ret.Error()
		}
	}()
	var ret nvml.Return
	if a.Driver, ret = lib.SystemGetDriverVersion(); ret != nvml.SUCCESS {
		a.Error = "nvmlSystemGetDriverVersion: " + ret.Error()
		return a
	}
	if a.NVML, ret = lib.SystemGetNVMLVersion(); ret != nvml.SUCCESS {
		a.Error = "nvmlSystemGetNVMLVersion: " + ret.Error()
		return a
	}
	n, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		a.Error = "nvmlDeviceGetCount: " + ret.Error()
		return a
	}
	for i := range n {
		d, err := describe(lib, i)
		if err != nil {
			a.Error = err.Error()
			return a
		}
		a.Devices = append(a.Devices, d)
	}
	return a
}

func describe(lib nvml.Interface, i int) (d device, err error) {
	h, ret := lib.DeviceGetHandleByIndex(i)
	if ret != nvml.SUCCESS {
		return d, fmt.Errorf("device %d: %s", i, ret.Error())
	}
	if d.UUID, ret = h.GetUUID(); ret != nvml.SUCCESS {
		return d, fmt.Errorf("device %d: uuid: %s", i, ret.Error())
	}
	if d.Name, ret = h.GetName(); ret != nvml.SUCCESS {
		return d, fmt.Errorf("device %d: name: %s", i, ret.Error())
	}
	pci, ret := h.GetPciInfo()
	if ret != nvml.SUCCESS {
		return d, fmt.Errorf("device %d: PCI address: %s", i, ret.Error())
	}
	d.PCI = fmt.Sprintf("%08x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
	return d, nil
}
