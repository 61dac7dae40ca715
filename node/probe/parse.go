package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxDevices is far above what any machine has.
const maxDevices = 1024

var errTooMany = fmt.Errorf("more than %d devices", maxDevices)

// parseProbe reads the JSON of cmd/driver-probe. NVML's "Not Found" of the first calls is a machine without a GPU that the
// driver serves: an answer.
func parseProbe(text []byte) (Answer, error) {
	a := Answer{Source: SourceProbe}
	var raw struct {
		Driver  string   `json:"driver"`
		Devices []Device `json:"devices"`
		Error   string   `json:"error"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&raw); err != nil {
		return a, fmt.Errorf("not the JSON that is expected: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return a, errors.New("text after the JSON")
	}
	if len(raw.Devices) > maxDevices {
		return a, errTooMany
	}
	for _, dev := range raw.Devices {
		dev, err := device(dev.UUID, dev.Name, dev.PCI)
		if err != nil {
			return a, err
		}
		a.Devices = append(a.Devices, dev)
	}
	a.Driver, a.Err = clean(raw.Driver), clean(raw.Error)
	if a.Err == "nvmlInit: Not Found" || a.Err == "nvmlDeviceGetCount: Not Found" {
		a.Err = ""
	} else if a.Err == "" && a.Driver == "" {
		return a, errors.New("no driver version in it")
	}
	return a, nil
}

// parseSMI reads what nvidia-smi prints for uuid,name,pci.bus_id,driver_version: one line a GPU. A value in brackets is nvidia-smi's
// way of saying that it could not be had: the GPU is not among the devices, and Err says which. Lines that are no row
// ("Unable to determine the device handle for GPU ...") come with exit code 0 as well.
func parseSMI(text []byte) (Answer, error) {
	a := Answer{Source: SourceSMI}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if len(a.Devices) >= maxDevices {
			return a, errTooMany
		}
		f := strings.Split(line, ", ")
		n := len(f)
		if n < 4 { // a name may hold a comma, the others do not
			a.Err = clean(line)
			continue
		}
		uuid, name, pci, version := f[0], strings.Join(f[1:n-2], ", "), f[n-2], f[n-1]
		if bracketed(uuid) || bracketed(pci) || bracketed(version) {
			a.Err = "incomplete answer about a GPU: " + clean(line)
			continue
		}
		dev, err := device(uuid, name, pci)
		if err != nil {
			return a, err
		}
		a.Devices = append(a.Devices, dev)
		a.Driver = clean(version)
	}
	if len(a.Devices) == 0 && a.Err == "" {
		return a, errors.New("no line about a GPU")
	}
	return a, nil
}

func bracketed(s string) bool { return strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") }

func device(uuid, name, pci string) (Device, error) {
	address, ok := sysfs(pci)
	if !ok {
		return Device{}, fmt.Errorf("device %q: %q is no PCI address", clean(uuid), clean(pci))
	}
	d := Device{UUID: clean(uuid), Name: clean(name), PCI: address}
	if d.UUID == "" {
		return Device{}, fmt.Errorf("device %s: no UUID", d.PCI)
	}
	return d, nil
}

// sysfs turns NVIDIA's 00000000:05:00.0 into the kernel's 0000:05:00.0.
func sysfs(pci string) (string, bool) {
	head, function, ok := strings.Cut(strings.TrimSpace(pci), ".")
	parts := strings.Split(head, ":")
	if !ok || len(parts) != 3 {
		return "", false
	}
	var n [4]uint64
	for i, field := range []struct {
		text string
		bits int
	}{{parts[0], 32}, {parts[1], 8}, {parts[2], 5}, {function, 3}} {
		var err error
		if n[i], err = strconv.ParseUint(field.text, 16, field.bits); err != nil {
			return "", false
		}
	}
	return fmt.Sprintf("%04x:%02x:%02x.%x", n[0], n[1], n[2], n[3]), true
}
