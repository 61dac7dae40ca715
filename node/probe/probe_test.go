package probe

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/node/daemons"
)

const (
	nvmlOne  = `0 {"driver":"535.261.03","nvml":"12.535.261.03","devices":[{"uuid":"GPU-1","name":"Tesla T4","pci":"00000000:3B:00.0"}]}`
	smiOne   = "0 GPU-1, Tesla T4, 00000000:3B:00.0, 535.261.03"
	smiDown  = "9 NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
	oldGLIBC = "1 !driver-probe: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found"
)

var t4 = []Device{{UUID: "GPU-1", Name: "Tesla T4", PCI: "0000:3b:00.0"}}

func TestAsk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nvml, smi string
		want      Answer
		err       error
		text      string
	}{
		"NVML answers":           {nvmlOne, "99 ", Answer{Driver: "535.261.03", Devices: t4, Source: SourceProbe}, nil, ""},
		"no devices":             {`0 {"driver":"535.261.03","devices":[]}`, "", Answer{Driver: "535.261.03", Devices: []Device{}, Source: SourceProbe}, nil, ""},
		"none found":             {`1 {"devices":[],"error":"nvmlInit: any words","code":6}`, "", Answer{Devices: []Device{}, Source: SourceProbe}, nil, ""},
		"no driver":              {`1 {"devices":[],"error":"nvmlInit: any words","code":9}`, "", Answer{Devices: []Device{}, Source: SourceProbe}, errNoDriver, "not loaded"},
		"no library":             {`1 {"devices":[],"error":"nvmlInit: any words","code":12}`, "", Answer{Devices: []Device{}, Source: SourceProbe}, errNoLibrary, "missing"},
		"mismatch":               {`1 {"devices":[],"error":"nvmlInit: any words","code":18}`, "", Answer{Devices: []Device{}, Source: SourceProbe}, errMismatch, "versions"},
		"one of two lost":        {`1 {"driver":"1.2","devices":[{"uuid":"GPU-1","name":"Tesla T4","pci":"0000:3b:00.0"}],"failed":["device 1: GPU is lost"]}`, "", Answer{Driver: "1.2", Devices: t4, Source: SourceProbe}, ErrPartly, "device 1"},
		"none answers":           {`1 {"driver":"1.2","devices":[],"failed":["device 0: power cable","device 1: x"]}`, "", Answer{Driver: "1.2", Devices: []Device{}, Source: SourceProbe}, ErrPartly, "power cable; device 1"},
		"unknown error":          {`1 {"driver":"1.2","devices":[],"error":"nvmlDeviceGetCount: x","code":999}`, "", Answer{Driver: "1.2", Devices: []Device{}, Source: SourceProbe}, errOther, "nvmlDeviceGetCount"},
		"no code":                {`1 {"driver":"1.2","devices":[],"error":"nvmlInit: Not Found"}`, "", Answer{Driver: "1.2", Devices: []Device{}, Source: SourceProbe}, nil, "without NVML's code"},
		"garbage":                {"0 hello", smiOne, Answer{Devices: []Device{}, Source: SourceProbe}, nil, "not the JSON"},
		"old glibc":              {oldGLIBC, smiOne, Answer{Driver: "535.261.03", Devices: t4, Source: SourceSMI}, nil, ""},
		"crash of the probe":     {"crash", smiOne, Answer{Driver: "535.261.03", Devices: t4, Source: SourceSMI}, nil, ""},
		"nvidia-smi: no devices": {oldGLIBC, "6 No devices were found", Answer{Devices: []Device{}, Source: SourceSMI}, nil, ""},
		"nvidia-smi: no driver":  {oldGLIBC, smiDown, Answer{Devices: []Device{}, Source: SourceSMI}, errNoDriver, "exit code 9"},
		"nvidia-smi: no library": {oldGLIBC, "12 x", Answer{Devices: []Device{}, Source: SourceSMI}, errNoLibrary, "exit code 12"},
		"nvidia-smi: mismatch":   {oldGLIBC, "18 x", Answer{Devices: []Device{}, Source: SourceSMI}, errMismatch, "exit code 18"},
		"nvidia-smi: lost":       {oldGLIBC, "15 x", Answer{Devices: []Device{}, Source: SourceSMI}, errLost, "exit code 15"},
		"nvidia-smi: one of two lost": {oldGLIBC, "15 GPU-1, Tesla T4, 00000000:3B:00.0, 535.261.03\nUnable to determine the device handle for GPU0000:05:00.0: GPU is lost.  Reboot the system to recover this GPU",
			Answer{Driver: "535.261.03", Devices: t4, Source: SourceSMI}, errLost, "GPU is lost"},
		"nvidia-smi: one of two fails": {oldGLIBC, "0 GPU-1, Tesla T4, 00000000:3B:00.0, 535.261.03\nUnable to determine the device handle for GPU0000:05:00.0: Unknown Error",
			Answer{Driver: "535.261.03", Devices: t4, Source: SourceSMI}, ErrPartly, "Unknown Error"},
		"nvidia-smi: other":           {oldGLIBC, "2 x", Answer{Devices: []Device{}, Source: SourceSMI}, nil, "(nvidia-smi, exit code 2: x)"},
		"nvidia-smi: garbage":         {oldGLIBC, "0 ", Answer{Devices: []Device{}, Source: SourceSMI}, nil, "no line about a GPU"},
		"flood":                       {"flood", "", Answer{Devices: []Device{}, Source: SourceProbe}, nil, "not the JSON"},
		"somebody keeps the output":   {"daemon " + nvmlOne[2:], "", Answer{Driver: "535.261.03", Devices: t4, Source: SourceProbe}, nil, ""},
		"nvidia-smi does not do well": {oldGLIBC, "crash", Answer{Devices: []Device{}, Source: SourceSMI}, nil, "exit code 137"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := new(Prober).Ask(t.Context(), options(c.nvml, c.smi))
			if (err != nil) != (c.text != "") || c.err != nil && !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v %q", err, c.err, c.text)
			}
			if !strings.Contains(got.Err, c.text) || (got.Err == "") != (err == nil) {
				t.Errorf("Err %q, want %q in it", got.Err, c.text)
			}
			got.Err = ""
			assert.Same(t, c.want, got)
		})
	}
}

func TestNeitherStarts(t *testing.T) {
	t.Parallel()
	o := options("", "")
	o.Probe, o.SMI = "/nonexistent/driver-probe", "/nonexistent/nvidia-smi"
	_, err := new(Prober).Ask(t.Context(), o)
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, "neither program", o.SMI)
	o.SMI = os.Args[0]
	if _, err := new(Prober).Ask(t.Context(), o); err == nil || strings.Contains(err.Error(), "neither") {
		t.Errorf("nvidia-smi runs: %v", err)
	}
}

// A child that hangs is killed with its own children. nvidia-smi is not tried: it would hang in the same
// place.
func TestHung(t *testing.T) {
	t.Parallel()
	o := options("hang 61.25", smiOne)
	o.Timeout = 300 * time.Millisecond
	a, err := new(Prober).Ask(t.Context(), o)
	if hung, ok := errors.AsType[*daemons.HungError](err); !ok || hung.Abandoned || hung.After < o.Timeout || a.Err == "" {
		t.Fatalf("%+v, %v", a, err)
	}
	assert.Equalf(t, false, stays(t, "sleep 61.25"), "the child's child still runs")
}

// A child that cannot be killed is left behind after two seconds, and no second one is started while it is
// there.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "traced")
	o := options("unkillable "+file, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // cancels when the tracer has seized the child
		for ctx.Err() == nil {
			if _, err := os.Stat(file); err == nil {
				cancel()
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	var p Prober
	began := time.Now()
	a, err := p.Ask(ctx, o)
	var hung *daemons.HungError
	if !errors.As(err, &hung) || !hung.Abandoned || a.Err == "" || !strings.Contains(err.Error(), "cannot be killed") {
		t.Fatalf("%+v, %v", a, err)
	}
	if d := time.Since(began); d < 2*time.Second || d > 32*time.Second {
		t.Errorf("took %v", d)
	}
	began = time.Now()
	if _, err := p.Ask(t.Context(), options(nvmlOne, "")); !errors.As(err, &hung) || time.Since(began) > 30*time.Second {
		t.Errorf("second: %v after %v", err, time.Since(began))
	}
	if err := os.Remove(file); err != nil { // the tracer detaches
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if a, err = p.Ask(t.Context(), options(nvmlOne, "")); err == nil {
			break
		}
	}
	if err != nil || len(a.Devices) != 1 {
		t.Errorf("afterwards: %v, %v", a, err)
	}
}

// usageOptions are for children that answer only when they are asked for memory and utilisation.
func usageOptions(script string) Options {
	o := options("99 asked for less", "99 asked for less")
	o.Env = append(o.Env, playUsage+"="+script)
	return o
}

func TestAskUsage(t *testing.T) {
	t.Parallel()
	want := []Device{{UUID: "GPU-1", Name: "Tesla T4", PCI: "0000:3b:00.0", Memory: &Memory{15360 << 20, 3 << 20}, Utilization: new(0.37)}}
	nvml := usageOptions(`0 {"driver":"1","devices":[{"uuid":"GPU-1","name":"Tesla T4","pci":"00000000:3B:00.0","memory":{"total":16106127360,"used":3145728},"utilization":37}]}`)
	smi := usageOptions("0 GPU-1, Tesla T4, 00000000:3B:00.0, 1, 15360, 3, 37")
	smi.Probe = "/nonexistent/driver-probe"
	for source, o := range map[string]Options{SourceProbe: nvml, SourceSMI: smi} {
		var p Prober
		got, err := p.AskUsage(t.Context(), o)
		if d := cmp.Diff(Answer{Driver: "1", Devices: want, Source: source}, got); d != "" || err != nil {
			t.Error(source, err, d)
		}
	}
}

// AskUsage neither asks nor waits during a query of Ask.
func TestUsageIsBusy(t *testing.T) {
	t.Parallel()
	var p Prober
	p.mu.Lock()
	assert.ErrorIs(t, assert.Err(p.AskUsage(t.Context(), usageOptions("0 x"))), ErrBusy)
}

// EndUsage cancels the current query at once, waits for the end of its child, and prevents further queries.
func TestEndUsage(t *testing.T) {
	t.Parallel()
	var p Prober
	failed := make(chan error, 1)
	go func() {
		_, err := p.AskUsage(context.WithoutCancel(t.Context()), usageOptions("hang 64.25"))
		failed <- err
	}()
	for end := time.Now().Add(time.Minute); !running(t, "sleep 64.25"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no child")
		}
	}
	began := time.Now()
	p.EndUsage()
	if took := time.Since(began); took > 30*time.Second || stays(t, "sleep 64.25") {
		t.Errorf("took %v, or the child is still there", took)
	}
	assert.ErrorIs(t, (<-failed), context.Canceled)
	assert.ErrorIs(t, assert.Err(p.AskUsage(t.Context(), usageOptions("0 x"))), ErrEnded)
	p.EndUsage()
	assert.NoErrorf(t, assert.Err(p.Ask(t.Context(), options(nvmlOne, ""))), "readiness can be asked for all the same")
}
