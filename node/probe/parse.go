package probe

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/node/daemons"
)

// cudaShape is the form of a version of CUDA. Another text is left out: it would become labels of
// the node.
var cudaShape = lazyregexp.New(`^[1-9][0-9]?\.[0-9]{1,2}$`)

// maxDevices is far more than any machine has.
const maxDevices = 1024

var errTooMany = fmt.Errorf("more than %d devices", maxDevices)

// parseProbe reads the JSON of cmd/driver-probe, and returns NVML's code for the call about the
// driver that failed, 0 for none. When that is "not found", the machine has no GPU that the driver
// serves: an answer and no error.
func parseProbe(text []byte) (a Answer, code int, err error) {
	a.Source = SourceProbe
	var raw struct {
		Driver  string   `json:"driver"`
		CUDA    string   `json:"cuda"`
		Devices []Device `json:"devices"` // utilisation in percent
		Failed  []string `json:"failed"`
		Error   string   `json:"error"`
		Code    int      `json:"code"`
	}
	err = json.Unmarshal(text, &raw)
	if err != nil {
		return a, 0, fmt.Errorf("not the JSON that is expected: %w", err)
	}
	if len(raw.Devices)+len(raw.Failed) > maxDevices {
		return a, 0, errTooMany
	}
	for _, reported := range raw.Devices {
		dev, err := device(reported.UUID, reported.Name, reported.PCI)
		if err != nil {
			return a, 0, err
		}
		dev.Memory = reported.Memory
		dev.Fabric = reported.Fabric
		dev.Licence = reported.Licence
		if reported.Utilization != nil {
			dev.Utilization = ratio(*reported.Utilization)
		}
		a.Devices = append(a.Devices, dev)
	}
	a.Driver = clean(raw.Driver)
	if cudaShape().MatchString(raw.CUDA) {
		a.CUDA = raw.CUDA
	}
	switch {
	case raw.Code == nvmlNotFound:
		return a, 0, nil
	case raw.Code != 0:
		a.Err = clean(cmp.Or(raw.Error, "no text"))
		return a, raw.Code, nil
	case raw.Error != "":
		return a, 0, errors.New("an error without NVML's code in it")
	case a.Driver == "":
		return a, 0, errors.New("no driver version in it")
	}
	a.Err = clean(strings.Join(raw.Failed, "; "))
	return a, 0, nil
}

// parseSMI reads what nvidia-smi prints for uuid,name,pci.bus_id,driver_version (with usage also
// for memory.total,memory.used,utilization.gpu in MiB and percent): one line a GPU. nvidia-smi
// prints a value in brackets when it cannot read the value: "[GPU is lost]", or "[N/A]" for what the
// GPU does not have. Without one of the first four values, or when one fails, the GPU is not among
// the devices, and Err names the value. Lines that are not rows ("Unable to determine the device
// handle for GPU ...") come with exit code 0, too.
func parseSMI(text []byte, usage bool) (Answer, error) {
	a := Answer{Source: SourceSMI}
	columns := 4
	if usage {
		columns = 7
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if len(a.Devices) >= maxDevices {
			return a, errTooMany
		}
		f := strings.Split(line, ", ")
		if len(f) < columns {
			a.Err = clean(line)
			continue
		}
		after := len(f) - columns + 2 // a name may contain a comma, the other columns cannot
		uuid := f[0]
		name := strings.Join(f[1:after], ", ")
		pci := f[after]
		version := f[after+1]
		if unread(uuid) || unread(pci) || unread(version) || slices.ContainsFunc(f[after+2:], failed) {
			a.Err = "incomplete answer about a GPU: " + clean(line)
			continue
		}
		dev, err := device(uuid, name, pci)
		if err != nil {
			return a, err
		}
		if usage {
			dev.setUsage(f[after+2:])
		}
		a.Devices = append(a.Devices, dev)
		a.Driver = clean(version)
	}
	if len(a.Devices) == 0 && a.Err == "" {
		return a, errors.New("no line about a GPU")
	}
	return a, nil
}

// setUsage reads memory.total, memory.used and utilization.gpu. The GPU does not have a value that
// is not a number, such as [N/A].
func (d *Device) setUsage(f []string) {
	const mib = 1 << 20
	total, err1 := strconv.ParseUint(f[0], 10, 32)
	used, err2 := strconv.ParseUint(f[1], 10, 32)
	if err1 == nil && err2 == nil {
		d.Memory = &Memory{Total: total * mib, Used: used * mib}
	}
	percent, err := strconv.ParseUint(f[2], 10, 32)
	if err != nil {
		return
	}
	d.Utilization = ratio(float64(percent))
}

// ratio turns a percentage into a number from 0 to 1, nil when it is out of range.
func ratio(percent float64) *float64 {
	if percent < 0 || percent > 100 {
		return nil
	}
	s := percent / 100
	return &s
}

// unread reports whether a column has no value but the reason.
func unread(s string) bool { return strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") }

// failed reports whether a column has an error, as driver-probe leaves a GPU out for one.
func failed(s string) bool { return unread(s) && s != "[N/A]" && s != "[Not Supported]" }

func device(uuid, name, pci string) (Device, error) {
	address, ok := sysfsAddress(pci)
	if !ok {
		return Device{}, fmt.Errorf("device %q: %q is no PCI address", clean(uuid), clean(pci))
	}
	d := Device{UUID: clean(uuid), Name: clean(name), PCI: address}
	if d.UUID == "" {
		return Device{}, fmt.Errorf("device %s: no UUID", d.PCI)
	}
	return d, nil
}

// sysfsAddress turns NVIDIA's 00000000:05:00.0 into the kernel's 0000:05:00.0.
func sysfsAddress(pci string) (string, bool) {
	var domain, bus, device, function uint32
	_, err := fmt.Sscanf(pci+"|", "%x:%x:%x.%x|", &domain, &bus, &device, &function)
	return fmt.Sprintf(
			"%04x:%02x:%02x.%x",
			domain,
			bus,
			device,
			function,
		), err == nil && bus < 256 && device < 32 &&
			function < 8
}

// ErrPartly says that a GPU does not answer; the Answer has the others.
var ErrPartly = errors.New("a GPU does not answer")

var (
	errNoDriver = errors.New(
		"the kernel driver does not answer: it is not loaded, or it found no GPU that it can serve",
	)
	errNoLibrary = errors.New("libnvidia-ml.so.1 is missing in the image")
	errLost      = fmt.Errorf("%w: it has fallen off the bus, and the node needs a restart", ErrPartly)
	errMismatch  = errors.New(
		"the libraries of this image and the loaded kernel driver are of different versions",
	)
	errOther = errors.New("the driver answered with an error")
)

// NVML's return codes, nvmlReturn_t of nvml.h. nvidia-smi exits with them: its manual page, section
// RETURN VALUE. Code 18 is not in it; it was observed with a library that is newer than the kernel
// module. NVML's texts are no codes: libraries word them in their own ways.
const (
	nvmlNotFound = 6
	nvmlLost     = 15
)

var meanings = map[int]error{
	9:        errNoDriver,
	12:       errNoLibrary,
	nvmlLost: errLost,
	18:       errMismatch,
}

func smiError(r daemons.Result) error {
	return fmt.Errorf(
		"%w (%s, exit code %d: %s)",
		cmp.Or(meanings[r.Code], errOther),
		SourceSMI,
		r.Code,
		lastLine(append(r.Stdout, r.Stderr...)),
	)
}

// failure returns what an incomplete answer means: the code is that of a call about the driver, or
// 0, and then the answer lacks GPUs.
func (a Answer) failure(code int) error {
	if a.Err == "" {
		return nil
	}
	found := ErrPartly
	if code != 0 {
		found = cmp.Or(meanings[code], errOther)
	}
	return fmt.Errorf("%w (%s: %s)", found, a.Source, a.Err)
}

// lastLine returns the last line that has text, without control characters and of limited length,
// because it goes to logs.
func lastLine(text []byte) string {
	lines := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range slices.Backward(lines) {
		if s := clean(line); s != "" {
			return s
		}
	}
	return "no output"
}

func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
	return strings.TrimSpace(strings.ToValidUTF8(s[:min(len(s), 300)], ""))
}
