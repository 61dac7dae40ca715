package probe

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

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
	if _, err := p.Ask(t.Context(), options(nvmlOne, "")); err != nil {
		t.Error("readiness can be asked for all the same:", err)
	}
}
