// Command nvcdi-mock writes the CDI specification that NVIDIA's library nvcdi makes of a driver
// root when NVML reports GPUs of a DGX A100, which no machine of the project has. NVML is go-nvml's
// mock. Everything else is the real library, above all the search in the driver root. It also runs
// the library's code for graphics, which management mode leaves out.
//
// It prints the specification as JSON on stdout and the library's own log on stderr. It does not
// judge either of them: package conformance does.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
)

func main() {
	root := flag.String("driver-root", "/run/nvidia/driver", "the driver root to read")
	dev := flag.String("dev-root", "/", "the folder whose dev holds the device nodes")
	gpus := flag.Int("gpus", 8, "how many GPUs NVML reports; their device nodes have to be there")
	version := flag.String("driver-version", "", "the version that NVML reports (required)")
	hook := flag.String(
		"nvidia-cdi-hook-path",
		"/usr/bin/nvidia-cdi-hook",
		"the hook program that the specification names",
	)
	flag.Parse()
	if *version == "" || *gpus < 1 || *gpus > 32 || flag.NArg() > 0 {
		fmt.Fprintln(
			os.Stderr,
			"nvcdi-mock: --driver-version is required, --gpus is 1 to 32, and there are no arguments",
		)
		os.Exit(2)
	}
	if err := write(*root, *dev, *hook, machine(*gpus, *version)); err != nil {
		fmt.Fprintf(os.Stderr, "nvcdi-mock: make a CDI specification of %s: %v\n", *root, err)
		os.Exit(1)
	}
}

func write(root, dev, hook string, lib nvml.Interface) error {
	cdi, err := nvcdi.New(
		nvcdi.WithMode(nvcdi.ModeNvml),
		nvcdi.WithDriverRoot(root),
		nvcdi.WithDevRoot(dev),
		nvcdi.WithNVIDIACDIHookPath(hook),
		nvcdi.WithNvmlLib(lib),
	)
	if err != nil {
		return fmt.Errorf("start nvcdi: %w", err)
	}
	spec, err := cdi.GetSpec()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(spec.Raw())
}

// machine is the mock with two answers added that it lacks: it knows the devices, but not whether
// one of them is a MIG slice.
func machine(n int, version string) nvml.Interface {
	machine := dgxa100.NewWithGPUs(gpus.Multiple(n, gpus.A100_SXM4_40GB)...)
	machine.DriverVersion = version
	machine.NvmlVersion = "12." + version
	for _, device := range machine.Devices {
		if gpu, ok := device.(*server.Device); ok {
			gpu.IsMigDeviceHandleFunc = func() (bool, nvml.Return) { return false, nvml.SUCCESS }
			gpu.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 0, nvml.SUCCESS }
		}
	}
	return machine
}
