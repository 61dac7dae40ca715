package gpu

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/metrics"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/report"
	"github.com/driver-container/driver-container/node/status"
)

// status is what an instance would know of this machine: the GPUs of the bus, or of procfs where no bus is
// visible, with what the driver answered about each.
func (s *session) status() status.Snapshot {
	st := status.Snapshot{Schema: status.Schema, State: status.Serving, Ready: true, Kernel: "this machine's", Wanted: s.version,
		Instance: status.NewInstance(), Started: time.Now(), Updated: time.Now(),
		Up: &status.Driver{Version: s.version, Flavour: s.flavour, Source: status.Adopted}}
	for _, want := range s.ref.GPUs {
		g := status.GPU{Address: want.sysfsAddress(), ID: "10de:" + strings.ToLower(want.ID[:min(4, len(want.ID))])}
		i := slices.IndexFunc(s.gpus, func(d devices.GPU) bool { return probe.Device{PCI: d.Address}.At(want.sysfsAddress()) })
		if i >= 0 {
			g.Address, g.ID = s.gpus[i].Address, fmt.Sprintf("%04x:%04x", s.gpus[i].Vendor, s.gpus[i].Device)
		}
		if i := slices.IndexFunc(s.probed.Devices, func(d probe.Device) bool { return d.At(g.Address) }); i >= 0 {
			g.Name, g.UUID, g.Works = s.probed.Devices[i].Name, s.probed.Devices[i].UUID, true
		}
		st.GPUs = append(st.GPUs, g)
	}
	return st
}

func askStatus(_ context.Context, s *session) found {
	var text strings.Builder
	st := s.status()
	if err := status.WriteText(&text, st, filepath.Join(s.work, "run"), kmod.System{}, nil); err != nil {
		return found{differences: []string{err.Error()}}
	}
	f := found{compared: "the text has address and name of each GPU in nvidia-smi, and the driver's version"}
	for _, want := range s.ref.GPUs {
		for _, part := range []string{want.sysfsAddress(), want.Name, s.version} {
			if !strings.Contains(text.String(), part) {
				f.differ("the text of the status lacks %q", part)
			}
		}
	}
	works := 0
	for _, g := range st.GPUs {
		if g.Works {
			works++
		}
	}
	f.answer = fmt.Sprintf("%d of %d GPUs work", works, len(st.GPUs))
	return f
}

// askMetrics scrapes the node's server once over loopback.
func askMetrics(ctx context.Context, s *session) found {
	text, err := s.scrape(ctx)
	if err != nil {
		return found{differences: []string{err.Error()}}
	}
	f := found{compared: "memory of each GPU in nvidia-smi, to 1 MiB; one gpu_up a GPU; gpu_query_success"}
	f.expect("nvidia_driver_gpu_query_success", sample(text, "nvidia_driver_gpu_query_success", ""), "1")
	f.expect("nvidia_driver_gpus_answering", sample(text, "nvidia_driver_gpus_answering", ""), strconv.Itoa(len(s.ref.GPUs)))
	for _, want := range s.ref.GPUs {
		label := `uuid="` + want.UUID + `"`
		f.expect("nvidia_driver_gpu_up of "+want.UUID, sample(text, "nvidia_driver_gpu_up", label), "1")
		total, has := number(want.Total)
		got, err := strconv.ParseFloat(cmp.Or(sample(text, "nvidia_driver_gpu_memory_total_bytes", label), "0"), 64)
		if err != nil || has && distance(uint64(got), total<<20) > 1<<20 {
			f.differ("nvidia_driver_gpu_memory_total_bytes of %s is %v, nvidia-smi says %s", want.UUID, got, want.Total)
		}
	}
	f.answer = fmt.Sprintf("%d lines, the question to the GPUs took %s s", strings.Count(text, "\n"), sample(text, "nvidia_driver_gpu_query_duration_seconds", ""))
	return f
}

func (s *session) scrape(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("serve metrics: %w", err)
	}
	server := metrics.New(metrics.Source{Status: s.status, GPUs: func(ctx context.Context) (probe.Answer, error) {
		return s.prober.AskUsage(ctx, s.options(s.driverProbe()))
	}}, metrics.Options{GPUEvery: time.Second})
	serving, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(serving, listener) }()
	defer func() { end(); <-ended }()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listener.Addr().String()+"/metrics", nil)
	if err != nil {
		return "", err
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return "", fmt.Errorf("scrape the metrics: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(io.LimitReader(answer.Body, outputLimit))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("scrape the metrics: %s", answer.Status)
	}
	return string(text), err
}

// sample returns the value of the first series of a metric with a label, "" if there is none.
func sample(text, metric, label string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, metric); ok && (strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "{") && strings.Contains(rest, label)) {
			return strings.TrimSpace(rest[strings.LastIndexByte(strings.TrimSpace(rest), ' ')+1:])
		}
	}
	return ""
}

// askLabels lets a reporter write the labels as it does on a node.
func askLabels(ctx context.Context, s *session) found {
	dir := filepath.Join(s.work, "features.d")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return found{differences: []string{err.Error()}}
	}
	st := s.status()
	r := report.Start(ctx, report.Source{Status: func() status.Snapshot { return st }, Changed: make(chan struct{})},
		report.Options{Features: dir, Proc: s.path("proc"), Log: slog.New(slog.DiscardHandler)})
	r.Close(ctx)
	text, err := os.ReadFile(filepath.Join(dir, "nvidia-driver"))
	if err != nil {
		return found{differences: []string{err.Error()}}
	}
	labels := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			labels[name] = value
		}
	}
	const prefix = "nvidia.com/driver."
	f := found{answer: fmt.Sprintf("%d labels; gpu.model=%s", len(labels), labels[prefix+"gpu.model"]), compared: "version, number and model of the GPUs in nvidia-smi"}
	f.expect(prefix+"version.full", labels[prefix+"version.full"], s.ref.Driver)
	f.expect(prefix+"flavour", labels[prefix+"flavour"], s.flavour)
	f.expect(prefix+"gpu.count", labels[prefix+"gpu.count"], strconv.Itoa(len(s.ref.GPUs)))
	f.expect(prefix+"gpu.working", labels[prefix+"gpu.working"], strconv.Itoa(len(s.ref.GPUs)))
	model := strings.ReplaceAll(s.ref.GPUs[0].Name, " ", "-")
	for _, g := range s.ref.GPUs {
		if g.Name != s.ref.GPUs[0].Name {
			model = "mixed"
		}
	}
	f.expect(prefix+"gpu.model", labels[prefix+"gpu.model"], model)
	return f
}

// aboutGPUs are the checks of preflight that a machine must pass whose driver works. The other checks are
// about the container and the node's software.
var aboutGPUs = []string{preflight.GPUPresent, preflight.GPUDriver, preflight.GPUHealth, preflight.GPUSupported, preflight.GPUFlavour}

func askPreflight(ctx context.Context, s *session) found {
	if len(s.gpus) == 0 {
		return notAsked("/sys shows no PCI device of NVIDIA here")
	}
	in := preflight.Input{Sys: s.path("sys"), Proc: s.path("proc"), Root: s.Root, Host: s.path("proc/1/root"), RunDir: filepath.Join(s.work, "run"),
		Info:    driverinfo.Description{Driver: s.version, Branch: "R" + s.version[:3], Flavours: []string{s.flavour}},
		Release: "", Previous: s.version, GPUs: s.gpus, Flavour: s.flavour, HaveModules: true, Source: status.Adopted, Stays: true}
	if release, err := os.ReadFile(s.path("proc/sys/kernel/osrelease")); err == nil {
		in.Release = strings.TrimSpace(string(release))
	}
	in.Modules, _ = kmod.System{Sys: s.path("sys"), Proc: s.path("proc")}.Loaded()
	list := "the driver's list of GPUs is not on the machine"
	if path := s.supportedList(); path != "" {
		in.Supported, in.SupportedErr = preflight.ReadSupported(path)
		list = "with " + path
	}
	f := found{compared: "a driver that works: no check of the GPUs may block or warn (" + list + ")"}
	words, others := []string{}, 0
	for _, c := range preflight.Run(ctx, in) {
		switch {
		case !slices.Contains(aboutGPUs, c.Name):
			if c.Status == preflight.Blocked || c.Status == preflight.Warning {
				others++
			}
		case c.Status == preflight.Blocked || c.Status == preflight.Warning:
			f.differ("%s: %s", c.Name, c.Finding)
		default:
			words = append(words, c.Name+" "+string(c.Status))
		}
	}
	f.answer = fmt.Sprintf("%s; %d findings about container and node, which were not judged", strings.Join(words, ", "), others)
	return f
}

// supportedList returns the path of supported-gpus.json, "" if the machine has none.
func (s *session) supportedList() string {
	for _, pattern := range []string{"usr/share/nvidia-driver/supported-gpus.json", "usr/share/doc/NVIDIA_GLX-1.0/supported-gpus/supported-gpus.json",
		"usr/share/doc/nvidia-*/supported-gpus/supported-gpus.json", "usr/local/nvidia/share/doc/*/supported-gpus/supported-gpus.json"} {
		if list, _ := filepath.Glob(s.path(pattern)); len(list) > 0 {
			return list[0]
		}
	}
	return ""
}
